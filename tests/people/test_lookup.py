"""Resolving keys: usable ones only, and a store that is away is said as such."""

import time

import anyio
import pytest
import trio

from llmgw.people.lookup import StoreKeyLookup
from llmgw.ports import KeyLookup, StoreUnavailable
from llmgw.store import keys
from llmgw.store.loop import Store
from tests.store.postgres_server import PostgresServer


def test_a_store_that_is_away_at_start_answers_unavailable_and_then_works(
    postgres: PostgresServer, postgres_address: str
) -> None:
    async def main() -> None:
        await trio.to_thread.run_sync(postgres.kill)
        try:
            opened = Store(postgres_address)
            await opened.__aenter__()
            lookup = StoreKeyLookup(opened)
            with pytest.raises(StoreUnavailable):
                await lookup.by_hash("00")
            assert lookup.store_away()
        finally:
            await trio.to_thread.run_sync(postgres.start)
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: lookup.run(task_status=task_status))
            with trio.fail_after(20):
                while lookup.store_away():
                    await lookup.changes.changed(lookup.changes.stand, was_away=True)
                    await lookup.by_hash("00")
            key = await opened.run(keys.create, keys.NewKey(kind="service", hash="00", prefix="llmgw_000000"))
            found = await lookup.by_hash("00")
            assert found is not None
            assert found.key_id == key.id
            assert not lookup.store_away()
            nursery.cancel_scope.cancel()
        await opened.__aexit__(None, None, None)

    trio.run(main)


def test_only_a_usable_key_resolves(address: str) -> None:
    now = time.time()

    async def main() -> None:
        async with Store(address) as store:
            lookup: KeyLookup = StoreKeyLookup(store)
            make = [
                keys.NewKey(
                    kind="service", hash="good", prefix="llmgw_good00", expires_at=now + 1000, name="ci"
                ),
                keys.NewKey(kind="service", hash="over", prefix="llmgw_over00", expires_at=now - 1),
                keys.NewKey(kind="service", hash="gone", prefix="llmgw_gone00"),
            ]
            for new in make:
                await store.run(keys.create, new)
            await store.run(keys.revoke, "llmgw_gone00", "me")
            found = await lookup.by_hash("good")
            assert found is not None
            assert (found.name, found.prefix, found.kind) == ("ci", "llmgw_good00", "service")
            assert found.expires_unix == now + 1000
            assert [await lookup.by_hash(text) for text in ("over", "gone", "unknown")] == [None] * 3

    anyio.run(main, backend="trio")


def test_the_epoch_moves_when_another_process_revokes(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store, Store(address) as other, trio.open_nursery() as nursery:
            await store.run(keys.create, keys.NewKey(kind="service", hash="h", prefix="llmgw_aaaaaa"))
            lookup = StoreKeyLookup(store)
            await nursery.start(lambda task_status: lookup.run(task_status=task_status))
            before = lookup.epoch()
            await other.run(keys.revoke, "llmgw_aaaaaa", "me")
            with trio.fail_after(10):
                await lookup.changed(before, store_away=False)
            assert lookup.epoch() > before
            nursery.cancel_scope.cancel()

    trio.run(main)
