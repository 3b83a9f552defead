"""`llmgw keys`: creating, listing and revoking API keys on the store itself, with the server running or not."""

import getpass
import json
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from llmgw.cli.find import up_folders
from llmgw.config.duration import parse_duration_s
from llmgw.config.refusal import Refused

_SYSTEM_STORE = "/var/lib/llmgw/llmgw.db"
_UP_STORE = "store/llmgw.db"


class _Duration(click.ParamType):
    """A duration as operators write it; anything else is a usage error (exit 2)."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        try:
            return parse_duration_s(value, "the duration")
        except Refused as refusal:
            self.fail(refusal.sentence, param, ctx)


class _Sentence(click.ClickException):
    """A refusal: one sentence on stderr, exit 1."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        """Print the sentence alone."""
        click.echo(self.format_message(), err=True)


def _store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options by which every store command finds its store."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option("--data", metavar="DIR", help="Data folder of `llmgw up`."),
        click.option("--config", metavar="FILE", help="server.yaml whose auth.store to use."),
        click.option("--store", metavar="URL", help="Path of an SQLite store, or a postgres:// address."),
    ):
        command = option(command)
    return command


@click.group()
def keys() -> None:
    """Create, list and revoke API keys."""


@keys.command()
@click.option("--name", default="", help="What the key is for.")
@click.option(
    "--expires",
    type=_Duration(),
    metavar="DUR",
    help='How long it lives, such as "720h"; never ends without.',
)
@click.option(
    "--project", default="default", show_default=True, help="Project it belongs to: a name, path or id."
)
@_store_options
def create(name: str, expires: float | None, project: str, as_json: bool, **where: str | None) -> None:
    """Make a key and print it, this once."""
    from llmgw.people import keys as people

    ask = people.KeyAsk(name=name, project=project, ttl_s=expires)
    minted = _on_store(where, "key.create", f"project:{project}", people.create, ask, _actor())
    if as_json:
        click.echo(json.dumps({"key": minted.text, **_shown(minted.row), "project": minted.project}))
        return
    click.echo(minted.text)
    ends = _when(minted.row.expires_at) or "never"
    click.echo(f"{minted.row.id} in {minted.project}, expires {ends}. It is not shown again.", err=True)


@keys.command("list")
@click.option("--project", help="Only this project's keys.")
@click.option("--all", "every", is_flag=True, help="Also revoked and expired keys.")
@_store_options
def list_(project: str | None, every: bool, as_json: bool, **where: str | None) -> None:
    """List keys: id, prefix, kind, name, expiry, last use."""
    from functools import partial

    from llmgw.people import keys as people

    rows = _on_store(where, "key.list", "", partial(people.list_keys, every=every), project)
    if as_json:
        click.echo(json.dumps([_shown(row) for row in rows]))
        return
    if not rows:
        click.echo("There are no keys; `llmgw keys create` makes one.", err=True)
        return
    _print_table(rows)


@keys.command()
@click.argument("key")
@_store_options
def revoke(key: str, as_json: bool, **where: str | None) -> None:
    """End a key for good. KEY is its id, its first 12 characters, or the key itself."""
    from llmgw.people import keys as people

    row = _on_store(where, "key.revoke", f"key:{key[:12]}", people.revoke, key, _actor())
    click.echo(
        json.dumps(_shown(row))
        if as_json
        else f"{row.id} ({row.prefix}…) is revoked since {_when(row.revoked_at)}"
    )


def find_store(store: str | None, config: str | None, data: str | None) -> str:
    """Return the store's address: --store, --config, the data folder of `up`, else the service's. Raises Refused."""
    if store:
        return store
    if config:
        from llmgw.config.load import load_server_config

        return load_server_config(config).auth.store
    stores = [folder / _UP_STORE for folder in up_folders(data)]
    found = stores[0] if data else next((path for path in stores if path.exists()), None)
    return str(found) if found is not None else _SYSTEM_STORE


def actor_name() -> str:
    """Return who ran the command, as C-08 allows: SUDO_USER, else the user; unfit characters become `-`."""
    try:
        name = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return re.sub(r"[^A-Za-z0-9._@-]", "-", name)[:64] or "unknown"


def _actor() -> Any:
    from llmgw.people.keys import Actor

    return Actor(actor_name(), "cli")


def _on_store(
    where: dict[str, str | None], action: str, target: str, fn: Callable[..., Any], *args: Any
) -> Any:
    """Run one unit on the store the options name; a refusal is a sentence and exit 1, and audited if a change."""
    from llmgw.people.keys import refused_event
    from llmgw.people.opened import on_store

    try:
        address = find_store(where["store"], where["config"], where["data"])
        if action == "key.list":
            return on_store(address, fn, *args)
        return on_store(
            address, fn, *args, refused=lambda refusal: refused_event(_actor(), action, target, refusal)
        )
    except Refused as refusal:
        raise _Sentence(refusal.sentence) from None


def _shown(row: Any) -> dict[str, Any]:
    """Return a key as JSON shows it: never its hash."""
    times = ("created_at", "expires_at", "revoked_at", "last_used_at")
    names = (
        "id",
        "prefix",
        "kind",
        "name",
        "project_id",
        "user_id",
        "created_by",
        "revoked_by",
        "band",
        "profile",
    )
    return {name: getattr(row, name) for name in names} | {name: _when(getattr(row, name)) for name in times}


def _when(unix: float | None) -> str | None:
    """Return RFC 3339 in UTC, to the second."""
    return None if unix is None else datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _print_table(rows: list[Any]) -> None:
    table = [("ID", "PREFIX", "KIND", "NAME", "EXPIRES", "LAST USED", "STATE")]
    for row in rows:
        state = "revoked" if row.revoked_at else "usable" if row.is_usable(time.time()) else "expired"
        ends, used = _when(row.expires_at) or "never", _when(row.last_used_at) or "never"
        table.append((row.id, row.prefix, row.kind, row.name or "-", ends, used, state))
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
