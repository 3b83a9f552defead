"""What a link is told: every transition once, whatever happened while no link stood (P-58, P-59)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from llmgw.agent.outbox import Outbox
from llmgw.agent.shard_reports import ShardReports
from llmgw.agent.shard_spec import ShardSpec
from llmgw.agent.shards import Shard, ShardTable
from llmgw.wire.agent import Compute, EngineProfile, FetchProgress, Register, ShardState, ShardStatus


class Clock:
    """A clock that jumps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def _spec(name: str) -> ShardSpec:
    return ShardSpec(replica_id="r", shard_id=name, model="m", profile=EngineProfile(engine="sim"))


class Link:
    """One link's watch over a table."""

    def __init__(self, table: ShardTable, tasks: anyio.abc.TaskGroup, clock: Clock) -> None:
        self.outbox = Outbox()
        self.said: list[ShardStatus] = []
        self._table = table
        self.scope = anyio.CancelScope()
        registered = Register(running_shards=[shard.running("a") for shard in table.living()])
        self._reports = ShardReports("n1", table, self.outbox, registered, clock)
        tasks.start_soon(self._run)

    async def _run(self) -> None:
        with self.scope:
            await self._reports.run()

    async def settle(self) -> list[tuple[str, ShardState]]:
        """Let the watch look twice; return what it said since the last call."""
        for _ in range(2):
            self._table.notify()
            await anyio.wait_all_tasks_blocked()
        new: list[tuple[str, ShardState]] = []
        queue = self.outbox.queued()
        while queue.statistics().current_buffer_used:
            status = queue.receive_nowait()
            assert isinstance(status, ShardStatus)
            self.said.append(status)
            new.append((status.shard_id, status.state))
        return new


def _run(main: Callable[[ShardTable, Callable[[], Link], Clock], Awaitable[None]]) -> None:
    async def inside() -> None:
        table, clock = ShardTable(), Clock()
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(30):
                await main(table, lambda: Link(table, tasks, clock), clock)
            tasks.cancel_scope.cancel()

    anyio.run(inside, backend="trio")


def test_each_transition_is_told_once_in_order() -> None:
    async def main(table: ShardTable, link: Callable[[], Link], _clock: Clock) -> None:
        one = link()
        shard = table.add(_spec("a"))
        assert await one.settle() == [("a", ShardState.PENDING)]
        shard.move(ShardState.STARTING)
        assert await one.settle() == [("a", ShardState.STARTING)]
        shard.knows(Compute(backend="CPU"))
        shard.move(ShardState.READY)
        assert await one.settle() == [("a", ShardState.READY)]
        assert one.said[-1].compute == Compute(backend="CPU")
        shard.fail("dead", 3, ["last"])
        assert await one.settle() == [("a", ShardState.FAILED)]
        assert (one.said[-1].error, one.said[-1].exit_code, one.said[-1].last_output) == ("dead", 3, ["last"])
        assert await one.settle() == []

    _run(main)


def test_what_became_ready_after_register_is_told_on_the_new_link() -> None:
    async def main(table: ShardTable, link: Callable[[], Link], _clock: Clock) -> None:
        shard = table.add(_spec("a"))
        shard.move(ShardState.STARTING)
        second = link()
        shard.move(ShardState.READY)
        assert await second.settle() == [("a", ShardState.READY)]

    _run(main)


def test_what_register_said_is_not_told_again_but_its_failure_is() -> None:
    async def main(table: ShardTable, link: Callable[[], Link], _clock: Clock) -> None:
        shard = table.add(_spec("a"))
        shard.move(ShardState.READY)
        second = link()
        assert await second.settle() == []
        shard.fail("dead")
        assert await second.settle() == [("a", ShardState.FAILED)]

    _run(main)


def test_an_end_that_no_link_saw_is_told_by_the_next_and_by_no_other() -> None:
    async def main(table: ShardTable, link: Callable[[], Link], _clock: Clock) -> None:
        failed, stopped = table.add(_spec("a")), table.add(_spec("b"))
        failed.fail("no such program")
        stopped.move(ShardState.STOPPED)
        first = link()
        assert sorted(await first.settle()) == [("a", ShardState.FAILED), ("b", ShardState.STOPPED)]
        first.scope.cancel()
        second = link()
        assert await second.settle() == []
        assert table.get("b") is None and table.get("a") is failed

    _run(main)


def test_an_end_is_told_even_when_the_next_start_came_at_once() -> None:
    async def main(table: ShardTable, link: Callable[[], Link], _clock: Clock) -> None:
        one = link()
        table.add(_spec("a")).move(ShardState.STOPPED)
        again = table.add(_spec("a"))
        assert await one.settle() == [("a", ShardState.STOPPED), ("a", ShardState.PENDING)]
        assert table.get("a") is again and table.all() == [again]

    _run(main)


def test_a_link_that_ends_before_it_was_told_leaves_the_end_for_the_next() -> None:
    async def main(table: ShardTable, link: Callable[[], Link], _clock: Clock) -> None:
        shard = table.add(_spec("a"))
        first = link()
        await first.settle()
        first.scope.cancel()
        shard.fail("dead")
        assert await link().settle() == [("a", ShardState.FAILED)]

    _run(main)


@pytest.mark.covers("E-182")
def test_progress_is_told_at_most_once_a_second() -> None:
    async def main(table: ShardTable, link: Callable[[], Link], clock: Clock) -> None:
        one = link()
        shard = table.add(_spec("a"))
        shard.fetch = FetchProgress(source="s")
        shard.move(ShardState.FETCHING)
        await one.settle()
        shard.fetch = FetchProgress(source="s", done_bytes=5, total_bytes=9)
        assert await one.settle() == []
        clock.now_s = 1.5
        assert await one.settle() == [("a", ShardState.FETCHING)]
        assert one.said[-1].fetch == FetchProgress(source="s", done_bytes=5, total_bytes=9)
        clock.now_s = 9.0
        assert await one.settle() == []

    _run(main)


@pytest.mark.covers("P-59")
def test_compute_is_told_once_per_link_without_a_state_and_looked_for_sixty_times() -> None:
    async def main(table: ShardTable, link: Callable[[], Link], clock: Clock) -> None:
        shard, silent, late = (table.add(_spec(name)) for name in "abc")
        ended = table.add(_spec("d"))
        for one in (shard, silent, late, ended):
            one.move(ShardState.READY)
        shard.compute = ended.compute = Compute(backend="CUDA")
        first = link()
        ended.fail("x")
        await first.settle()
        clock.now_s = 5.0
        assert await first.settle() == [("a", ShardState.UNSPECIFIED)]
        assert first.said[-1].compute == Compute(backend="CUDA")
        for step in range(2, 61):
            clock.now_s = 5.0 * step
            assert await first.settle() == []
        late.compute = Compute(backend="CPU")
        clock.now_s = 1000.0
        assert await first.settle() == []
        second = link()
        await second.settle()
        clock.now_s = 1005.0
        assert await second.settle() == [("a", ShardState.UNSPECIFIED), ("c", ShardState.UNSPECIFIED)]

    _run(main)


def test_the_table_forgets_old_ends_but_none_that_was_not_told() -> None:
    table = ShardTable()
    kept: list[Shard] = []
    for number in range(600):
        shard = table.add(_spec(f"s{number}"))
        shard.fail("x")
        shard.is_end_told = number % 2 == 0
        kept += [] if shard.is_end_told else [shard]
    assert all(table.get(shard.shard_id) is shard for shard in kept)
    assert len(table.all()) <= 300 + 257
