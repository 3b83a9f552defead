"""Parked models."""

import anyio

from llmgw.store import parked
from llmgw.store.loop import Store


def test_a_model_is_parked_with_its_reason_until_cleared(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            await store.run(parked.put, "m", 5, "exit status 1")
            await store.run(parked.put, "m", 6, "exit status 2")
            [row] = (await store.read(parked.all)).values()
            assert (row.model, row.failures, row.reason) == ("m", 6, "exit status 2")
            assert await store.run(parked.clear, "m") is True
            assert await store.run(parked.clear, "m") is False
            assert await store.read(parked.all) == {}

    anyio.run(main, backend="trio")
