"""Resolving keys for the gateway (ports.KeyLookup): one indexed read each; what is remembered is the gateway's (T-18).

The watch over the store lives here: the epoch that tells gateways to forget, and whether the store is away, so that a
known key goes on past its time and an unknown one is answered 503 instead of 401 (F-15).
"""

import anyio
from anyio.abc import TaskStatus

from llmgw.ports import Principal, StoreUnavailable
from llmgw.store import keys
from llmgw.store.listen import Changes
from llmgw.store.loop import Store


class StoreKeyLookup:
    """The KeyLookup of a store. Runs the watch while `run` runs."""

    def __init__(self, store: Store, changes: Changes | None = None) -> None:
        self._store = store
        self.changes = changes or Changes(store)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Watch the store until cancelled."""
        await self.changes.run(task_status=task_status)

    async def by_hash(self, key_hash: str) -> Principal | None:
        """Return the principal of a usable key, None for any other. Raises StoreUnavailable."""
        try:
            found = await self._store.read(keys.by_hash, key_hash)
        except StoreUnavailable:
            self.changes.note(is_away=True)
            raise
        self.changes.note(is_away=False)
        return found

    async def changed(self, epoch: int, store_away: bool) -> None:
        """Wait until `epoch()` or `store_away()` differs from what the caller was told."""
        while self.epoch() == epoch and self.store_away() == store_away:
            await self.changes.changed(self.changes.stand, self.changes.is_away)

    def epoch(self) -> int:
        """Return the tenancy epoch last seen, 0 before the first look."""
        return self.changes.stand.tenancy_epoch

    def store_away(self) -> bool:
        """Return whether the store could not be asked the last time anyone did."""
        return self.changes.is_away
