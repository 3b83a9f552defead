"""Commands for one shard, one after the other in the order they arrived; different shards side by side (P-60c)."""

from collections import deque
from collections.abc import Awaitable, Callable

import anyio.abc

Work = Callable[[], Awaitable[None]]


class ShardLanes:
    """A queue per shard that exists while it has work. Work runs in `tasks` and must not raise."""

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self._tasks = tasks
        self._lanes: dict[str, deque[Work]] = {}

    def put(self, shard_id: str, work: Work) -> None:
        """Queue work for a shard."""
        lane = self._lanes.get(shard_id)
        if lane is not None:
            lane.append(work)
            return
        self._lanes[shard_id] = deque([work])
        self._tasks.start_soon(self._run, shard_id)

    def is_busy(self, shard_id: str) -> bool:
        """Return whether a shard has work running or waiting."""
        return shard_id in self._lanes

    def waiting(self, shard_id: str) -> int:
        """Return how much work waits behind what runs now."""
        return max(len(self._lanes.get(shard_id, ())) - 1, 0)

    async def _run(self, shard_id: str) -> None:
        lane = self._lanes[shard_id]
        while lane:
            await lane[0]()
            lane.popleft()
        del self._lanes[shard_id]
