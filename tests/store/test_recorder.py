"""The usage recorder: no row is lost while the store is away, and none of it ever waits."""

import random

import sqlalchemy as sa
import trio

from llmgw.store import tables, usage
from llmgw.store.loop import Store
from llmgw.store.recorder import UsageRecorder
from tests.store.postgres_server import PostgresServer
from tests.store.rows import usage_row


async def _until(condition, seconds: float = 30.0) -> None:
    with trio.fail_after(seconds):
        while not condition():
            await trio.sleep(0.02)


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


def test_a_row_that_the_database_refuses_is_dropped_alone(postgres_address: str) -> None:
    said: list[str] = []

    async def main() -> None:
        async with Store(postgres_address) as store:
            recorder = UsageRecorder(store, warn=said.append)
            for number in range(10):
                recorder.put(usage_row(number, prompt_tokens=2**70 if number == 4 else 1))
            async with trio.open_nursery() as nursery:
                await nursery.start(lambda task_status: recorder.run(task_status=task_status))
                await _until(lambda: recorder.waiting() == 0)
                nursery.cancel_scope.cancel()
            assert (recorder.written, recorder.dropped) == (9, 1)
            assert await store.read(usage.by_request_id, "req-4") == []
            assert len(await store.read(usage.by_request_id, "req-5")) == 1
        assert "use-000004" in said[0]

    trio.run(main)
