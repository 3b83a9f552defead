"""What a key costs the store, and how soon a dead one is dead (T-18)."""

import anyio
import pytest
import trio
import trio.testing

from llmgw.gateway.principals import ADDRESSES, KEPT, AddressBuckets, Flood, Principals
from llmgw.ports import Found, Principal, StoreUnavailable

KEY = "aa" * 32


class Keys:
    """A control port of which only `lookup` is asked."""

    def __init__(self) -> None:
        self.principals: dict[str, Principal] = {}
        self.epoch = 1
        self.is_away = False
        self.asked: list[str] = []
        self.gate: trio.Event | None = None

    async def lookup(self, key_hash: str) -> Found:
        self.asked.append(key_hash)
        epoch, principal = self.epoch, self.principals.get(key_hash)
        if self.gate is not None:
            await self.gate.wait()
        if self.is_away:
            raise StoreUnavailable("away")
        return Found(principal, epoch)


class World:
    def __init__(self) -> None:
        self.now = 1000.0
        self.keys = Keys()
        self.principals = Principals(self.keys, lambda: self.now, lambda: self.now)  # type: ignore[arg-type]
        self.principals.take_notice(1, False)

    def add(self, key_hash: str = KEY, **facts) -> Principal:
        principal = Principal(key_hash[:4], "project", key_hash, "o", "t", "p", "", **facts)
        self.keys.principals[key_hash] = principal
        return principal

    async def resolve(self, key_hash: str = KEY, address: str = "10.0.0.1") -> Principal | None:
        return await self.principals.resolve(key_hash, address)


def played(script) -> None:
    async def main() -> None:
        with trio.fail_after(10):
            await script(World())

    trio.run(main)


def test_a_resolved_key_is_kept_for_sixty_seconds():
    async def script(world):
        principal = world.add()
        for _ in range(5):
            assert await world.resolve() == principal
        world.now += 59.9
        assert await world.resolve() == principal
        assert len(world.keys.asked) == 1
        world.now += 0.2
        assert await world.resolve() == principal
        assert len(world.keys.asked) == 2

    played(script)


def test_an_unknown_key_is_kept_for_ten_seconds():
    async def script(world):
        for _ in range(5):
            assert await world.resolve() is None
        world.now += 9.9
        assert await world.resolve() is None
        assert len(world.keys.asked) == 1
        world.now += 0.2
        assert await world.resolve() is None
        assert len(world.keys.asked) == 2

    played(script)


def test_a_moved_epoch_drops_known_and_unknown_alike():
    async def script(world):
        world.add()
        assert await world.resolve() is not None
        assert await world.resolve("bb" * 32) is None
        del world.keys.principals[KEY]
        world.add("bb" * 32)
        world.keys.epoch = 2
        world.principals.take_notice(2, False)
        assert await world.resolve() is None
        assert await world.resolve("bb" * 32) is not None

    played(script)


def test_an_answer_looked_up_before_the_epoch_moved_is_not_kept():
    async def script(world):
        world.add()
        world.keys.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.resolve)
            await trio.testing.wait_all_tasks_blocked()
            del world.keys.principals[KEY]
            world.keys.epoch = 2
            world.principals.take_notice(2, False)
            world.keys.gate.set()
        world.keys.gate = None
        assert await world.resolve() is None

    played(script)


def test_requests_with_one_key_share_one_lookup():
    async def script(world):
        principal = world.add()
        world.keys.gate = trio.Event()
        found = []

        async def ask() -> None:
            found.append(await world.resolve())

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            world.keys.gate.set()
        assert found == [principal] * 100
        assert len(world.keys.asked) == 1

    played(script)


def test_a_leaver_does_not_take_the_lookup_of_others_with_it():
    async def script(world):
        principal = world.add()
        world.keys.gate = trio.Event()
        found = []
        leaving = trio.CancelScope()

        async def leave() -> None:
            with leaving:
                await world.resolve()

        async def stay() -> None:
            found.append(await world.resolve())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(stay)
            await trio.testing.wait_all_tasks_blocked()
            leaving.cancel()
            await trio.testing.wait_all_tasks_blocked()
            world.keys.gate.set()
        assert found == [principal]

    played(script)


def test_junk_keys_cost_no_more_queries_than_the_bucket_gives():
    async def script(world):
        refused = 0
        for number in range(10_000):
            world.now += 0.001
            try:
                assert await world.resolve(f"{number:064x}") is None
            except Flood:
                refused += 1
        assert len(world.keys.asked) <= 20 + 5 * 10 + 1
        assert refused == 10_000 - len(world.keys.asked)

    played(script)


def test_honest_keys_behind_one_address_are_no_flood():
    async def script(world):
        for number in range(300):
            world.add(f"{number:064x}")
        for epoch in (2, 3):
            world.principals.take_notice(epoch, False)
            world.keys.epoch = epoch
            for number in range(300):
                assert await world.resolve(f"{number:064x}") is not None

    played(script)


def test_another_address_has_a_bucket_of_its_own():
    async def script(world):
        for number in range(20):
            await world.resolve(f"{number:064x}")
        with pytest.raises(Flood):
            await world.resolve("ff" * 32)
        assert await world.resolve("ff" * 32, "10.0.0.2") is None

    played(script)


def test_memory_is_bounded_under_very_many_keys_and_addresses():
    async def script(world):
        for number in range(KEPT + 500):
            await world.resolve(f"{number:064x}", f"address-{number}")
        assert len(world.principals) <= KEPT
        buckets = AddressBuckets(lambda: 0.0)
        for number in range(ADDRESSES + 500):
            buckets.take(str(number))
        assert len(buckets) == ADDRESSES

    played(script)


def test_a_known_key_outlives_its_time_while_the_store_is_away_and_an_unknown_one_is_no_401():
    async def script(world):
        principal = world.add()
        assert await world.resolve() == principal
        world.keys.is_away = True
        world.now += 3600
        assert await world.resolve() == principal
        with pytest.raises(StoreUnavailable):
            await world.resolve("bb" * 32)
        world.keys.is_away = False
        world.now += 3600
        assert await world.resolve() == principal
        assert await world.resolve("bb" * 32) is None

    played(script)


def test_a_store_known_to_be_away_is_not_asked_for_every_request():
    async def script(world):
        world.add()
        await world.resolve()
        world.keys.is_away = True
        world.principals.take_notice(1, True)
        world.now += 3600
        asked = len(world.keys.asked)
        for _ in range(100):
            assert await world.resolve() is not None
        assert len(world.keys.asked) == asked + 1

    played(script)


def test_an_expired_key_is_dead_even_when_it_is_remembered():
    async def script(world):
        world.add(expires_unix=1030.0)
        assert await world.resolve() is not None
        world.keys.is_away = True
        world.now += 31
        assert await world.resolve() is None
        world.now += 3600
        assert await world.resolve() is None

    played(script)


def test_a_store_that_fails_fails_all_who_wait_at_once():
    async def script(world):
        world.keys.is_away = True
        world.keys.gate = trio.Event()
        failed = []

        async def ask() -> None:
            try:
                await world.resolve()
            except StoreUnavailable:
                failed.append(1)

        async with trio.open_nursery() as nursery:
            for _ in range(30):
                nursery.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            world.keys.gate.set()
        assert len(failed) == 30
        assert len(world.keys.asked) == 1

    played(script)
