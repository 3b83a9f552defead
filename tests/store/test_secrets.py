"""Secrets made once."""

import anyio
import pytest
import trio

from llmgw.store import secrets
from llmgw.store.loop import Store


@pytest.mark.covers("P-56")
def test_everyone_who_asks_gets_the_same_engine_secret(address: str) -> None:
    async def main() -> None:
        found: list[bytes] = []

        async def ask(store: Store) -> None:
            found.append(await store.run(secrets.engine_secret))

        async with Store(address, wait_s=30) as one, Store(address, wait_s=30) as other:
            async with trio.open_nursery() as nursery:
                for store in (one, other, one, other):
                    nursery.start_soon(ask, store)
            assert await one.run(secrets.made_once, "another", 16) != found[0]
        assert len(set(found)) == 1
        assert len(found[0]) == 32

    anyio.run(main, backend="trio")
