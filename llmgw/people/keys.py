"""Creating, listing and revoking API keys, each with its audit event in the same transaction.

Functions take a connection of the store, as the store's own do: `await store.run(keys.create, ask, by)`.
"""

import time

import sqlalchemy as sa
from msgspec import Struct

from llmgw.config.duration import render_duration
from llmgw.config.refusal import Refused
from llmgw.people import key_text
from llmgw.people.key_text import digest, is_whole, new_key
from llmgw.ports import AuditEvent
from llmgw.store import audit, tree
from llmgw.store import keys as rows
from llmgw.store.keys import KeyRow

__all__ = ["Actor", "KeyAsk", "Minted", "create", "digest", "is_whole", "list_keys", "new_key", "revoke"]

_SHORTEST_S = 60.0
_LONGEST_NAME = 128


class Actor(Struct, frozen=True):
    """Who acts and through what: `name` as C-08 allows, `source` a word of C-55."""

    name: str
    source: str
    control_plane: str = ""


class KeyAsk(Struct, frozen=True, kw_only=True):
    """A service key to be made. `project` is an id, path or name; `ttl_s` counts from now, None never ends."""

    name: str = ""
    project: str = "default"
    ttl_s: float | None = None


class Minted(Struct, frozen=True):
    """A key that was just made: its text, seen this once, and what is kept of it."""

    text: str
    row: KeyRow
    project: str


def create(connection: sa.Connection, ask: KeyAsk, by: Actor) -> Minted:
    """Make a service key of a project. Raises Refused before anything is written."""
    name = _checked_name(ask.name)
    if ask.ttl_s is not None and ask.ttl_s < _SHORTEST_S:
        raise Refused(400, f"a key lives for at least 1m; {render_duration(ask.ttl_s)} is shorter")
    project = tree.find_project(connection, ask.project)
    text = new_key()
    row = rows.create(
        connection,
        rows.NewKey(
            kind="service",
            hash=digest(text),
            prefix=key_text.listed_prefix(text),
            name=name,
            project_id=project.id,
            created_by=by.name,
            expires_at=None if ask.ttl_s is None else time.time() + ask.ttl_s,
        ),
    )
    after = {"kind": row.kind, "name": row.name, "project": project.path, "expires_at": row.expires_at}
    _audit(connection, by, "key.create", row, after=after)
    return Minted(text, row, project.path)


def list_keys(connection: sa.Connection, project: str | None = None, *, every: bool = False) -> list[KeyRow]:
    """Return keys, oldest first; without `every` only usable ones. Raises Refused for an unknown project."""
    project_id = tree.find_project(connection, project).id if project is not None else None
    return rows.list_keys(connection, project_id, every=every)


def revoke(connection: sa.Connection, named: str, by: Actor) -> KeyRow:
    """End a key named by its text, id or prefix; return it as it is now. Doing it again changes nothing."""
    sought = _sought(named)
    try:
        before = rows.find(connection, sought)
    except Refused as refusal:
        if sought == named:
            raise
        raise Refused(
            refusal.status, "nobody has that key; `llmgw keys list --all` shows those there are"
        ) from None
    after = rows.revoke(connection, before.id, by.name)
    changed = before.revoked_at is None
    _audit(connection, by, "key.revoke", after, after={"revoked_at": after.revoked_at} if changed else {})
    return after


def refused_event(by: Actor, action: str, target: str, refusal: Refused) -> AuditEvent:
    """Return the audit event of a refusal, which is written in a transaction of its own (C-56)."""
    return AuditEvent(
        at_unix=time.time(),
        actor=by.name,
        source=by.source,
        action=action,
        target=target,
        result="refused",
        status=refusal.status,
        error=refusal.sentence,
        control_plane=by.control_plane,
    )


def _sought(named: str) -> str:
    """Return what to look a key up by, so that a key's text goes no further than here."""
    if not named.startswith("llmgw_") or len(named) <= len("llmgw_") + 6:
        return named
    if not is_whole(named):
        raise Refused(
            400, "that is not a whole key: its checksum is wrong; give its id or its first 12 characters"
        )
    return digest(named)


def _checked_name(name: str) -> str:
    name = name.strip()
    if len(name) > _LONGEST_NAME or any(ord(character) < 32 for character in name):
        raise Refused(400, f"a key's name is at most {_LONGEST_NAME} characters without control characters")
    return name


def _audit(connection: sa.Connection, by: Actor, action: str, row: KeyRow, after: dict[str, object]) -> None:
    audit.insert(
        connection,
        AuditEvent(
            at_unix=time.time(),
            actor=by.name,
            source=by.source,
            action=action,
            target=f"key:{row.id}",
            result="ok",
            fields=tuple(after),
            after=after,
            control_plane=by.control_plane,
        ),
    )
