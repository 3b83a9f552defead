"""The control port as direct calls: what a gateway in the same process gets.

A snapshot is a picture of five things that move on their own: routes, settings, the tenancy epoch, whether this
control plane leads, and whether the store is away. Only the first can be waited for, so `feed` also looks at the
others ten times a second: comparing a few integers is cheap, and a revoked key is forgotten well inside its second.
"""

from collections.abc import Callable

import anyio

from llmgw.ports import (
    Fleet,
    Found,
    GatewaySettings,
    KeyLookup,
    LeaseAsk,
    LeaseGrant,
    Report,
    Snapshot,
    UsageSink,
)

LOOK_EVERY_S = 0.1
LEASE_VALID_S = 5.0


class LocalControl:
    """`ControlPort` over the leader's fleet, the store's key lookup and the usage recorder."""

    def __init__(
        self, fleet: Fleet, keys: KeyLookup, usage: UsageSink, settings: Callable[[], GatewaySettings]
    ) -> None:
        self._fleet = fleet
        self._keys = keys
        self._usage = usage
        self._settings = settings
        self._version = 0
        self._seen: tuple[object, ...] = ()

    async def feed(self, after: int) -> Snapshot:
        """Wait for and return the first snapshot whose version is above `after` (0: the current one, at once)."""
        while True:
            routes_version = self._fleet.version()
            if self._current_version() > after:
                return self._snapshot()
            with anyio.move_on_after(LOOK_EVERY_S):
                await self._fleet.changed(routes_version)

    def _current_version(self) -> int:
        now = (
            self._fleet.version(),
            self._keys.epoch(),
            self._keys.store_away(),
            self._fleet.is_leading(),
            self._settings(),
        )
        if now != self._seen:
            self._seen = now
            self._version += 1
        return self._version

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            version=self._version,
            models=self._fleet.models(),
            replicas=self._fleet.replicas(),
            settings=self._settings(),
            tenancy_epoch=self._keys.epoch(),
            leading=self._fleet.is_leading(),
            store_away=self._keys.store_away(),
        )

    async def lookup(self, key_hash: str) -> Found:
        """Resolve a key by the SHA-256 hex of its text. Raises StoreUnavailable.

        The epoch is read before the store is asked: if a change lands in between, the answer carries an epoch older
        than the next snapshot's, and the gateway does not keep it.
        """
        epoch = self._keys.epoch()
        principal = await self._keys.by_hash(key_hash)
        return Found(principal=principal, tenancy_epoch=epoch)

    async def lease(self, ask: LeaseAsk) -> LeaseGrant:
        """Grant allowance. No counter has a limit yet, so every lease is unlimited for its 5 s."""
        return LeaseGrant(units=ask.units, valid_s=LEASE_VALID_S, unlimited=True)

    async def report(self, report: Report) -> None:
        """Hand rows to the recorder and demand to the fleet. Neither waits for anything."""
        for row in report.rows:
            self._usage.put(row)
        self._fleet.demand(report)
