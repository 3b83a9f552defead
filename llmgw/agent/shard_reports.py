"""What one link is told of the shards (P-58, P-59).

Reports belong to the link, not to the command that caused them: a shard that became ready between a Register and the
old link's end would otherwise stay "starting" for ever, and one whose engine died after a reconnect "ready" for ever.
So one task per link compares what this link was told (its Register, then each report) with what is, and tells the
difference; every transition reaches whoever is connected, once.
"""

import time
from collections.abc import Callable

import anyio

from llmgw.agent.outbox import Outbox
from llmgw.agent.shards import Shard, ShardTable
from llmgw.wire.agent import FetchProgress, Register, ShardState, ShardStatus

_LOOK_EVERY_S = 1.0
_PROGRESS_EVERY_S = 1.0
_COMPUTE_EVERY_S = 5.0
_COMPUTE_ROUNDS = 60


class ShardReports:
    """One link's view of the node's shards."""

    def __init__(
        self,
        node_id: str,
        shards: ShardTable,
        outbox: Outbox,
        registered: Register,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node_id = node_id
        self._shards = shards
        self._outbox = outbox
        self._now_s = now_s
        self._told = {one.shard_id: one.state for one in registered.running_shards}
        self._compute_told: set[str] = set()
        self._progress_told: dict[str, tuple[float, FetchProgress]] = {}
        self._compute_rounds = 0
        self._compute_at_s = now_s() + _COMPUTE_EVERY_S

    async def run(self) -> None:
        """Report until cancelled. Raises LinkEnded when the link does."""
        while True:
            changed = self._shards.changed
            for shard in self._shards.all():
                await self._tell(shard)
            await self._tell_compute()
            with anyio.move_on_after(_LOOK_EVERY_S):
                await changed.wait()

    async def _tell(self, shard: Shard) -> None:
        before = self._told.get(shard.shard_id)
        if shard.is_ended and shard.is_end_told:
            self._told[shard.shard_id] = shard.state
        elif shard.state is not before:
            await self._tell_state(shard)
        elif shard.state is ShardState.FETCHING:
            await self._tell_progress(shard)

    async def _tell_state(self, shard: Shard) -> None:
        status = shard.status(self._node_id)
        await self._outbox.send(status)
        self._told[shard.shard_id] = status.state
        if status.compute is not None:
            self._compute_told.add(shard.shard_id)
        if status.fetch is not None:
            self._progress_told[shard.shard_id] = (self._now_s(), status.fetch)
        if shard.is_ended and shard.state is status.state:
            shard.is_end_told = True
            if shard.state is ShardState.STOPPED:
                self._shards.remove(shard)
                self._told.pop(shard.shard_id, None)

    async def _tell_progress(self, shard: Shard) -> None:
        fetch, now_s = shard.fetch, self._now_s()
        at_s, before = self._progress_told.get(shard.shard_id, (0.0, None))
        if fetch is None or fetch == before or now_s - at_s < _PROGRESS_EVERY_S:
            return
        self._progress_told[shard.shard_id] = (now_s, fetch)
        await self._outbox.send(shard.status(self._node_id))

    async def _tell_compute(self) -> None:
        """Each living shard whose compute is known, once per link, looked for every 5 s and 60 times at most (P-59)."""
        now_s = self._now_s()
        if now_s < self._compute_at_s or self._compute_rounds >= _COMPUTE_ROUNDS:
            return
        self._compute_at_s = now_s + _COMPUTE_EVERY_S
        self._compute_rounds += 1
        for shard in self._shards.living():
            if shard.compute is None or shard.shard_id in self._compute_told:
                continue
            self._compute_told.add(shard.shard_id)
            await self._outbox.send(
                ShardStatus(
                    node_id=self._node_id,
                    replica_id=shard.spec.replica_id,
                    shard_id=shard.shard_id,
                    compute=shard.compute,
                )
            )
