"""What stands behind the control port, in memory: for tests of gateways that need no leader and no store.

They imitate the Protocols of `llmgw.ports` only; nothing here decides anything.
"""

from collections.abc import Sequence

import anyio
import anyio.lowlevel

from llmgw.ports import ModelRoute, Principal, ReplicaRoute, Report, StoreUnavailable, UsageRow


class MemoryFleet:
    """`Fleet` whose routes a test sets. `reports` holds every report it was told."""

    def __init__(self) -> None:
        self.leading = True
        self.reports: list[Report] = []
        self._models: tuple[ModelRoute, ...] = ()
        self._replicas: tuple[ReplicaRoute, ...] = ()
        self._version = 1
        self._moved = anyio.Event()

    def set(self, models: Sequence[ModelRoute], replicas: Sequence[ReplicaRoute]) -> None:
        """Replace all routes."""
        self._models = tuple(models)
        self._replicas = tuple(replicas)
        self._version += 1
        self._moved.set()
        self._moved = anyio.Event()

    def version(self) -> int:
        """Return a number that grows with each `set`."""
        return self._version

    async def changed(self, after: int) -> int:
        """Wait until `version() > after` and return it."""
        while self._version <= after:
            await self._moved.wait()
        return self._version

    def models(self) -> tuple[ModelRoute, ...]:
        """Return the models set."""
        return self._models

    def replicas(self) -> tuple[ReplicaRoute, ...]:
        """Return the replicas set."""
        return self._replicas

    def is_leading(self) -> bool:
        """Return `leading`."""
        return self.leading

    def demand(self, report: Report) -> None:
        """Keep the report."""
        self.reports.append(report)


class MemoryKeys:
    """`KeyLookup` over a dict of hash to principal. `lookups` counts what would be store queries."""

    def __init__(self) -> None:
        self.principals: dict[str, Principal] = {}
        self.epoch_now = 1
        self.is_away = False
        self.lookups = 0

    async def by_hash(self, key_hash: str) -> Principal | None:
        """Return the principal. Raises StoreUnavailable while `is_away`."""
        self.lookups += 1
        await anyio.lowlevel.checkpoint()
        if self.is_away:
            raise StoreUnavailable("The store cannot be reached.")
        return self.principals.get(key_hash)

    def epoch(self) -> int:
        """Return `epoch_now`."""
        return self.epoch_now

    def store_away(self) -> bool:
        """Return `is_away`."""
        return self.is_away


class MemoryUsage:
    """`UsageSink` that keeps rows."""

    def __init__(self) -> None:
        self.rows: list[UsageRow] = []

    def put(self, row: UsageRow) -> None:
        """Keep one row."""
        self.rows.append(row)
