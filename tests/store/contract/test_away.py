"""A store that is away: said quickly, at start as well as later, and healed by itself."""

import random
import subprocess
import sys

import pytest
import sqlalchemy as sa
import trio

from llmgw.people.lookup import StoreKeyLookup
from llmgw.ports import StoreUnavailable
from llmgw.store import keys, nodes, tables, usage
from llmgw.store.listen import Changes
from llmgw.store.loop import Store
from llmgw.store.recorder import UsageRecorder
from tests.store.postgres_server import PostgresServer
from tests.store.rows import usage_row


async def _until(condition, seconds: float = 30.0) -> None:
    with trio.fail_after(seconds):
        while not condition():
            await trio.sleep(0.02)


def test_a_postgresql_that_is_killed_is_away_at_once_and_heals(
    postgres: PostgresServer, postgres_address: str
) -> None:
    async def main() -> None:
        async with Store(postgres_address) as store:
            await store.run(nodes.remember, "before", "")
            await trio.to_thread.run_sync(postgres.kill)
            try:
                for _ in range(3):
                    with trio.fail_after(5), pytest.raises(StoreUnavailable):
                        await store.run(nodes.remember, "during", "")
            finally:
                await trio.to_thread.run_sync(postgres.start)
            await store.run(nodes.remember, "after", "")
            assert {node.id for node in await store.read(nodes.known)} == {"before", "after"}

    trio.run(main)


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
            key = await opened.run(keys.create, keys.NewKey(kind="service", hash="00", prefix="llmgw_000000"))
            found = await lookup.by_hash("00")
            assert found is not None
            assert found.key_id == key.id
            assert not lookup.store_away()
            nursery.cancel_scope.cancel()
        await opened.__aexit__(None, None, None)

    trio.run(main)


def test_five_seconds_without_postgresql_under_load_lose_no_row(
    postgres: PostgresServer, postgres_address: str
) -> None:
    """T-36's proof, as far as the recorder goes."""
    said: list[str] = []
    pick = random.Random(1)

    async def main() -> None:
        async with Store(postgres_address) as store, trio.open_nursery() as nursery:
            recorder = UsageRecorder(store, warn=said.append)
            await nursery.start(lambda task_status: recorder.run(task_status=task_status))
            put = 0

            async def load(until) -> None:
                nonlocal put
                while not until():
                    for _ in range(5):
                        recorder.put(usage_row(put, pick))
                        put += 1
                    await trio.sleep(0.02)

            await load(lambda: recorder.written > 100)
            await trio.to_thread.run_sync(postgres.kill)
            gone_at = trio.current_time()
            try:
                await load(lambda: trio.current_time() - gone_at > 5 and recorder.failed_writes > 1)
                assert recorder.waiting() > 0
            finally:
                await trio.to_thread.run_sync(postgres.start)
            await load(lambda: recorder.waiting() == 0 or recorder.written > put - 20)
            await _until(lambda: recorder.waiting() == 0)
            assert recorder.dropped == 0
            counted = await store.read(
                lambda c: c.execute(sa.select(sa.func.count()).select_from(tables.usage)).scalar()
            )
            assert counted == put
            assert any("wait in memory" in sentence for sentence in said)
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_full_buffer_drops_counts_and_says_so_once_a_minute(sqlite_address: str) -> None:
    said: list[str] = []

    async def main() -> None:
        async with Store(sqlite_address) as store:
            recorder = UsageRecorder(store, buffer_size=20, batch_size=10, warn=said.append)
            for number in range(50):
                recorder.put(usage_row(number))
            assert (recorder.waiting(), recorder.dropped) == (20, 30)
            async with trio.open_nursery() as nursery:
                await nursery.start(lambda task_status: recorder.run(task_status=task_status))
                await _until(lambda: recorder.written == 20 and said)
                nursery.cancel_scope.cancel()
        assert said == ["30 usage rows were dropped: 20 wait already"]

    trio.run(main)


def test_a_recorder_that_is_stopped_writes_what_it_holds(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            recorder = UsageRecorder(store, flush_interval_s=3600)
            async with trio.open_nursery() as nursery:
                await nursery.start(lambda task_status: recorder.run(task_status=task_status))
                for number in range(120):
                    recorder.put(usage_row(number))
                nursery.cancel_scope.cancel()
            assert recorder.waiting() == 0
            assert len(await store.read(usage.by_request_id, "req-119")) == 1

    trio.run(main)


_OTHER = """
import sys, anyio
from llmgw.store.loop import Store
from llmgw.store import nodes
async def main():
    async with Store(sys.argv[1], wait_s=60) as store:
        for number in range(150):
            await store.run(nodes.remember, f"other-{number}", "")
anyio.run(main, backend="trio")
"""


def test_two_processes_write_one_file(address: str) -> None:
    """Neither loses a write nor fails for the other's lock, a new file's first second included."""
    other = subprocess.Popen([sys.executable, "-c", _OTHER, address])

    async def main() -> None:
        async with Store(address, wait_s=60) as store:
            for number in range(150):
                await store.run(nodes.remember, f"mine-{number}", "")
            assert await trio.to_thread.run_sync(other.wait, 60) == 0
            names = {node.id for node in await store.read(nodes.known)}
        assert names == {f"{who}-{number}" for who in ("mine", "other") for number in range(150)}

    try:
        trio.run(main)
    finally:
        other.kill()
        other.wait()


def test_a_change_by_another_process_is_noticed(address: str) -> None:
    async def main() -> None:
        async with Store(address) as mine, Store(address) as other, trio.open_nursery() as nursery:
            changes = Changes(mine)
            await nursery.start(lambda task_status: changes.run(task_status=task_status))
            for _ in range(2):
                before = changes.stand
                name = f"h{before.tenancy_epoch}"
                await other.run(keys.create, keys.NewKey(kind="service", hash=name, prefix=name))
                with trio.fail_after(10):
                    after = await changes.changed(before)
                assert after.tenancy_epoch > before.tenancy_epoch
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_postgresql_notifies_listeners_without_waiting_for_the_poll(postgres_address: str) -> None:
    async def main() -> None:
        async with Store(postgres_address) as store, trio.open_nursery() as nursery:
            changes = Changes(store, poll_s=3600)
            await nursery.start(lambda task_status: changes.run(task_status=task_status))
            for _ in range(3):
                before = changes.stand
                name = f"h{before.tenancy_epoch}"
                with trio.fail_after(20):
                    await store.run(keys.create, keys.NewKey(kind="service", hash=name, prefix=name))
                    await changes.changed(before)
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_waiting_for_a_busy_store_ends_with_a_sentence(sqlite_address: str) -> None:
    async def main() -> None:
        started, release = trio.Event(), []
        async with Store(sqlite_address, wait_s=0.2) as one, Store(sqlite_address, wait_s=0.2) as other:
            tell = one.waker(started.set)

            def hold(connection: sa.Connection) -> None:
                nodes.remember(connection, "holder", "")
                tell()
                while not release:
                    connection.execute(sa.select(1)).scalar()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(one.run, hold)
                await started.wait()
                with pytest.raises(StoreUnavailable, match="busy"):
                    await one.run(nodes.remember, "a", "")
                with pytest.raises(StoreUnavailable, match="locked by another process"):
                    await other.run(nodes.remember, "a", "")
                assert await other.read(nodes.known) == []
                release.append(True)

    trio.run(main)
