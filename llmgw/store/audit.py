"""Audit events (C-55 to C-58): appended in the transaction of the change they tell of, never changed."""

from typing import Any

import msgspec
import sqlalchemy as sa

from llmgw.ports import AuditEvent
from llmgw.store.struck import struck, struck_text
from llmgw.store.tables import audit_events

SOURCES = ("api", "console", "web", "cli", "scim", "oidc", "system")
RESULTS = ("ok", "refused", "failed")


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What to read. `action` may end in `*`. Times are Unix seconds; `limit` counts from the newest.

    `before_id` continues an earlier page: only events older than that id.
    """

    since_unix: float | None = None
    until_unix: float | None = None
    actor: str | None = None
    source: str | None = None
    action: str | None = None
    target: str | None = None
    result: str | None = None
    limit: int = 200
    before_id: int | None = None


def insert(connection: sa.Connection, event: AuditEvent) -> None:
    """Append one event, with secrets struck out whatever the caller did."""
    row = msgspec.structs.asdict(event)
    row["at"] = row.pop("at_unix")
    for name in ("actor", "action", "target", "error", "address"):
        row[name] = struck_text(row[name])
    row["fields"] = _json([struck_text(name) for name in event.fields])
    row["before"], row["after"] = _json(struck(event.before)), _json(struck(event.after))
    connection.execute(audit_events.insert(), row)


def query(connection: sa.Connection, ask: AuditQuery) -> list[AuditEvent]:
    """Return events, newest first."""
    return [event for _, event in page(connection, ask)]


def page(connection: sa.Connection, ask: AuditQuery) -> list[tuple[int, AuditEvent]]:
    """Return events with their ids, newest first."""
    c = audit_events.c
    exact = {"actor": ask.actor, "source": ask.source, "target": ask.target, "result": ask.result}
    wanted: list[Any] = [c[name] == value for name, value in exact.items() if value is not None]
    if ask.since_unix is not None:
        wanted.append(c.at >= ask.since_unix)
    if ask.until_unix is not None:
        wanted.append(c.at < ask.until_unix)
    if ask.before_id is not None:
        wanted.append(c.id < ask.before_id)
    if ask.action is not None and ask.action.endswith("*"):
        wanted.append(c.action.startswith(ask.action[:-1], autoescape=True))
    elif ask.action is not None:
        wanted.append(c.action == ask.action)
    rows = connection.execute(sa.select(audit_events).where(*wanted).order_by(c.id.desc()).limit(ask.limit))
    return [(row.id, _event(dict(row._mapping))) for row in rows]


def _event(row: dict[str, Any]) -> AuditEvent:
    row.pop("id")
    row["at_unix"] = row.pop("at")
    row["fields"] = tuple(msgspec.json.decode(row["fields"] or "[]"))
    row["before"] = msgspec.json.decode(row["before"] or "{}")
    row["after"] = msgspec.json.decode(row["after"] or "{}")
    return AuditEvent(**row)


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode() if value else ""
