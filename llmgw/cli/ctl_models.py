"""ctl commands about models: models, model add|show|remove|retry, scale."""

import sys
from typing import Any

import click

from llmgw.cli.connection import Connection, connected
from llmgw.cli.failure import Failure
from llmgw.cli.lazy import SETTINGS, LazyGroup
from llmgw.cli.output import show_json, show_table
from llmgw.cli.progress import watch_replicas


@click.command(context_settings=SETTINGS)
@connected
def models(connection: Connection) -> None:
    """List models."""
    found = connection.call("list_models")
    if connection.as_json:
        show_json(found)
        return
    rows = [
        (m["name"], m["status"], f"{m.get('ready', 0)}/{m.get('desired', 0)}", f"{m.get('min', 0)}-{m.get('max', 0)}",
         m.get("engine"), m.get("class"), m.get("source"), m.get("reason"))
        for m in found
    ]  # fmt: skip
    heads = ("MODEL", "STATUS", "READY", "SCALE", "ENGINE", "CLASS", "SOURCE", "REASON")
    show_table(heads, rows, "There are no models; `llmgw ctl model add FILE` adds one.")


@click.group(cls=LazyGroup)
def model() -> None:
    """Add, show, remove or retry a model."""


@model.command("add")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--wait", is_flag=True, help="Follow its download and start until it answers.")
@connected
def add(connection: Connection, file: str, wait: bool) -> None:
    """Add the model that FILE (YAML or JSON) defines."""
    added = connection.call("add_model", body=_definition(file))
    name = added["name"]
    followed = wait and _wait(connection, name)
    if connection.as_json:
        show_json(connection.call("show_model", {"name": name}) if wait else added)
    elif followed:
        click.echo(f"{name} is ready")
    elif wait:
        click.echo(f"{name} is added and wants no replica now; `llmgw ctl models` says whether it loads on demand")
    else:
        click.echo(f"{name} is added; `llmgw ctl replicas --watch` follows its start")


def _wait(connection: Connection, name: str) -> bool:
    """Follow the replicas of a model that wants some; return whether it does.

    Raises Failure when one fails or none can be placed.
    """
    state = connection.call("show_model", {"name": name}).get("state", {})
    if not state.get("desired", 1):
        return False

    def ask() -> Any:
        found = connection.call("list_replicas", query={"model": name})
        placed = found or connection.call("placement", {"name": name})
        if not found and placed.get("waiting_for") and not any(p["fits"] for p in placed.get("profiles", [])):
            raise Failure(f"{name} is added and waits: {placed['waiting_for']}; `llmgw ctl explain-placement {name}` says why")
        return found

    for replica in watch_replicas(ask, wait_for_first=True):
        if replica["state"] == "failed":
            raise Failure(f"{replica['id']} failed: {replica.get('error') or 'it did not say why'}")
    return True


def _definition(file: str) -> dict[str, Any]:
    from llmgw.config.load import read_yaml
    from llmgw.config.refusal import Refused

    try:
        raw = read_yaml("/dev/stdin" if file == "-" else file)
    except Refused as refusal:
        raise Failure(refusal.sentence) from None
    if not isinstance(raw, dict) or not raw:
        raise Failure(f"{file} holds no model definition; it must be a table with at least a name and a profile")
    try:
        import json

        return json.loads(json.dumps(raw))
    except (TypeError, ValueError) as error:
        raise Failure(f"{file} holds a value that is no plain data: {error}") from None


@model.command("show")
@click.argument("name")
@connected
def show(connection: Connection, name: str) -> None:
    """Show a model's definition with its defaults, and its state."""
    show_json(connection.call("show_model", {"name": name}))


@model.command("remove")
@click.argument("name")
@click.option("--force", is_flag=True, help="Also when another model names it as its fallback.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@connected
def remove(connection: Connection, name: str, force: bool, yes: bool) -> None:
    """Remove a model; its replicas finish what they answer and stop."""
    _confirm(f"Remove the model {name} and stop its replicas?", yes)
    connection.call("remove_model", {"name": name}, query={"force": True if force else None})
    _done(connection, {"removed": name}, f"{name} is removed")


@model.command("retry")
@click.argument("name")
@connected
def retry(connection: Connection, name: str) -> None:
    """Try a parked model again."""
    connection.call("retry_model", {"name": name})
    _done(connection, {"retried": name}, f"{name} is tried again")


@click.command(context_settings=SETTINGS)
@click.argument("name", metavar="MODEL")
@click.option("--min", "least", type=click.IntRange(min=0), help="Replicas kept running; 0 loads on demand.")
@click.option("--max", "most", type=click.IntRange(min=0), help="Most replicas; 0 stops the model.")
@click.option("--idle-timeout", metavar="DUR", help='Unused time after which it unloads, such as "30m".')
@connected
def scale(
    connection: Connection, name: str, least: int | None, most: int | None, idle_timeout: str | None
) -> None:
    """Change how many replicas a model has."""
    change = {"min": least, "max": most, "idle_timeout": idle_timeout}
    given = {key: value for key, value in change.items() if value is not None}
    if not given:
        raise click.UsageError("give at least one of --min, --max and --idle-timeout")
    found = connection.call("scale_model", {"name": name}, body=given)
    _done(connection, found, f"{name}: min {found['min']}, max {found['max']}, idle timeout {found['idle_timeout']}")


def _confirm(question: str, yes: bool) -> None:
    """Ask before what cannot be taken back (C-89)."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Failure("this asks before it acts; give --yes when nobody is there to answer")
    click.confirm(question, abort=True, err=True)


def _done(connection: Connection, value: Any, sentence: str) -> None:
    if connection.as_json:
        show_json(value)
    else:
        click.echo(sentence)
