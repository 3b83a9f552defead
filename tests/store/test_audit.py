"""Audit events: appended whole, secrets struck out, found again."""

import anyio
import pytest
import sqlalchemy as sa

from llmgw.ports import AuditEvent
from llmgw.store import audit, tables
from llmgw.store.audit import AuditQuery
from llmgw.store.loop import Store


def _event(number: int, **fields: object) -> AuditEvent:
    values: dict = {
        "at_unix": 1000.0 + number,
        "actor": "ada",
        "source": "api",
        "action": "model.scale",
        "target": f"model:m{number}",
        "result": "ok",
    }
    return AuditEvent(**(values | fields))


def test_an_event_reads_back_whole(address: str) -> None:
    event = _event(
        1,
        status=409,
        error="no room",
        address="10.0.0.1",
        control_plane="cp1",
        fields=("min", "max"),
        before={"min": 1, "owner": None},
        after={"min": 2, "tags": ["a", "b"]},
        result="refused",
    )

    async def main() -> None:
        async with Store(address) as store:
            await store.run(audit.insert, event)
            assert await store.read(audit.query, AuditQuery()) == [event]

    anyio.run(main, backend="trio")


@pytest.mark.covers("C-57")
def test_no_secret_reaches_the_table(address: str) -> None:
    canary = "canary-8c1f"
    event = _event(
        1,
        target=f"postgres://u:{canary}@db/x",
        error=f"cannot reach https://me:{canary}@host/",
        before={"password": canary, "nested": {"client_secret": canary, "list": [{"api_token": canary}]}},
        after={
            "dsn": canary,
            "note": f"-----BEGIN PRIVATE KEY-----\n{canary}\n-----END PRIVATE KEY-----",
            "n": 3,
        },
    )

    async def main() -> None:
        async with Store(address) as store:
            await store.run(audit.insert, event)
            everything = str(await store.read(lambda c: c.execute(sa.select(tables.audit_events)).all()))
            assert canary not in everything
            assert everything.count("***") >= 7

    anyio.run(main, backend="trio")


def test_events_are_found_by_every_filter_newest_first(address: str) -> None:
    events = [
        _event(1),
        _event(2, actor="bob", action="model.add", source="cli"),
        _event(3, action="settings.set", result="refused", target="settings"),
        _event(4, action="modelling.x"),
        _event(5, action="model_x"),
    ]

    async def main() -> None:
        async with Store(address) as store:
            for event in events:
                await store.run(audit.insert, event)

            async def found(**ask: object) -> list[int]:
                rows = await store.read(audit.query, AuditQuery(**ask))
                return [int(row.at_unix - 1000) for row in rows]

            assert await found() == [5, 4, 3, 2, 1]
            assert await found(limit=2) == [5, 4]
            assert await found(actor="bob") == [2]
            assert await found(source="cli") == [2]
            assert await found(action="model.*") == [2, 1]
            assert await found(action="model_*") == [5]
            assert await found(action="model.add") == [2]
            assert await found(target="settings") == [3]
            assert await found(result="refused") == [3]
            first = await store.read(audit.page, AuditQuery(limit=2))
            assert [event for _, event in first] == [events[4], events[3]]
            assert await found(before_id=first[-1][0]) == [3, 2, 1]
            assert await found(since_unix=1002.0, until_unix=1004.0) == [3, 2]

    anyio.run(main, backend="trio")
