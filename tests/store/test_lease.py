"""The leader's lease: one holder, a term that only grows, late writes refused."""

import anyio
import pytest
import sqlalchemy as sa
import trio
from hypothesis import HealthCheck, given
from hypothesis import settings as rules
from hypothesis import strategies as st

from llmgw.store import lease, nodes, tables
from llmgw.store.lease import StaleTerm
from llmgw.store.loop import Store


def _expire(connection: sa.Connection) -> None:
    connection.execute(tables.lease.update().values(expires_at=1.0))


def _run(fn) -> None:
    anyio.run(fn, backend="trio")


def test_a_free_lease_is_taken_and_a_held_one_is_not(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            assert (await store.read(lease.read)).holder == ""
            mine = await store.run(lease.acquire, "a", 30.0, "10.0.0.1:7443")
            assert mine is not None
            assert mine.term == 1
            assert await store.run(lease.acquire, "b", 30.0) is None
            assert await store.read(lease.read) == mine
            again = await store.run(lease.renew, 1, 60.0)
            assert again.expires_at > mine.expires_at
            assert again.term == 1

    _run(main)


def test_an_expired_or_released_lease_passes_on_with_a_higher_term(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            await store.run(lease.acquire, "a", 30.0)
            await store.run(_expire)
            taken = await store.run(lease.acquire, "b", 30.0)
            assert taken is not None
            assert (taken.holder, taken.term) == ("b", 2)
            assert await store.run(lease.release, 1) is False
            assert await store.run(lease.release, 2) is True
            assert await store.run(lease.release, 2) is False
            third = await store.run(lease.acquire, "a", 30.0)
            assert third is not None
            assert third.term == 3

    _run(main)


def test_a_leader_that_was_asleep_can_neither_renew_nor_write(address: str) -> None:
    def write(connection: sa.Connection, term: int) -> None:
        nodes.remember(connection, "late", "")
        lease.check(connection, term)

    async def main() -> None:
        async with Store(address) as store:
            await store.run(lease.acquire, "a", 30.0)
            await store.run(write, 1)
            await store.run(_expire)
            await store.run(lease.renew, 1, 30.0)  # nobody took it meanwhile: still the leader
            await store.run(_expire)
            await store.run(lease.acquire, "b", 30.0)
            await store.run(nodes.forget, "late")
            for late in (lambda: store.run(lease.renew, 1, 30.0), lambda: store.run(write, 1)):
                with pytest.raises(StaleTerm) as caught:
                    await late()
                assert (caught.value.held, caught.value.current) == (1, 2)
            assert await store.read(nodes.known) == []

    _run(main)


def test_of_many_that_ask_at_once_one_leads(address: str) -> None:
    async def main() -> None:
        won: list[str] = []

        async def ask(store: Store, name: str) -> None:
            if await store.run(lease.acquire, name, 30.0):
                won.append(name)

        async with Store(address, wait_s=30) as one, Store(address, wait_s=30) as other:
            async with trio.open_nursery() as nursery:
                for number in range(10):
                    nursery.start_soon(ask, (one, other)[number % 2], f"c{number}")
            assert len(won) == 1
            assert (await one.read(lease.read)).holder == won[0]

    trio.run(main)


@rules(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(["a", "b", "expire", "release"]), max_size=12))
def test_the_term_never_falls_and_never_has_two_holders(
    tmp_path_factory: pytest.TempPathFactory, acts: list[str]
) -> None:
    address = str(tmp_path_factory.mktemp("lease") / "a.db")

    async def main() -> None:
        holders: dict[int, set[str]] = {}
        term = 0
        async with Store(address) as store:
            for act in acts:
                if act == "expire":
                    await store.run(_expire)
                elif act == "release":
                    await store.run(lease.release, term)
                else:
                    await store.run(lease.acquire, act, 30.0)
                now = await store.read(lease.read)
                assert now.term >= term
                term = now.term
                holders.setdefault(term, set()).update({now.holder} - {""})
        assert all(len(names) <= 1 for names in holders.values())

    _run(main)
