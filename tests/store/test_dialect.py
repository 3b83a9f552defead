"""Upserts on both databases."""

import anyio
import sqlalchemy as sa

from llmgw.store import tables
from llmgw.store.dialect import is_postgres, upsert
from llmgw.store.loop import Store


def test_an_upsert_inserts_and_then_sets_the_other_columns(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            for build in ("1", "2"):
                await store.run(upsert, tables.node_engines, {"node": "n", "engine": "vllm", "build": build})
            rows = await store.read(lambda c: c.execute(sa.select(tables.node_engines)).all())
            assert [tuple(row) for row in rows] == [("n", "vllm", "2")]
            assert await store.read(is_postgres) is not store.is_sqlite

    anyio.run(main, backend="trio")
