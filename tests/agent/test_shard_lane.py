"""One shard's commands run in order, different shards side by side (P-60c)."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

from llmgw.agent.shard_lane import ShardLanes


@pytest.mark.covers("P-60c")
def test_one_shards_work_is_in_order_and_another_shards_does_not_wait_for_it() -> None:
    async def main() -> None:
        done: list[str] = []
        gate = anyio.Event()

        async def work(name: str, wait: bool = False) -> None:
            if wait:
                await gate.wait()
            done.append(name)

        async with anyio.create_task_group() as tasks:
            lanes = ShardLanes(tasks)
            lanes.put("a", partial(work, "a1", wait=True))
            for number in range(2, 30):
                lanes.put("a", partial(work, f"a{number}"))
            lanes.put("b", partial(work, "b1"))
            await anyio.wait_all_tasks_blocked()
            assert done == ["b1"] and lanes.waiting("a") == 28 and lanes.is_busy("a") and not lanes.is_busy("b")
            gate.set()
        assert done == ["b1", *(f"a{number}" for number in range(1, 30))] and not lanes.is_busy("a")

    anyio.run(main, backend="trio")
