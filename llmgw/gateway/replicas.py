"""The live state of every replica a gateway may send to: what the last scrape said, and our own requests there now.

The slow facts (address, key, engine) come with the snapshot and are replaced whole; the live ones belong to a replica
id and outlast a snapshot. A slot at a replica is a `with` block, so it ends with the scope of its request however that
ends, and before anything is logged (F-12).
"""

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from llmgw.policy.routing.candidate import Candidate
from llmgw.ports import ReplicaRoute

STALE_AFTER = 3
"""Failed scrapes in a row after which a replica is scored last (S-42)."""


class Gauges(msgspec.Struct, frozen=True):
    """What one scrape of an engine said; None is unknown. `kv_use` is 0 to 1."""

    running: float | None = None
    waiting: float | None = None
    kv_use: float | None = None


class _Live:
    """The moving part of one replica."""

    def __init__(self) -> None:
        self.gauges = Gauges()
        self.failed_scrapes = 0
        self.inflight = 0
        self.inflight_at_scrape = 0
        self.last_used_unix: float | None = None


class ReplicaTable:
    """All replicas of the newest snapshot. `wall` is Unix seconds, for the time of last use."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._routes: dict[str, ReplicaRoute] = {}
        self._by_model: dict[str, list[ReplicaRoute]] = {}
        self._live: dict[str, _Live] = {}
        self._failed_connects: Counter[str] = Counter()

    def replace(self, routes: Sequence[ReplicaRoute]) -> None:
        """Take the replicas of a new snapshot; forget those that are gone and have no request of ours left."""
        self._routes = {route.id: route for route in routes}
        self._by_model = {}
        for route in routes:
            self._by_model.setdefault(route.model, []).append(route)
            self._live.setdefault(route.id, _Live())
        for replica_id in [
            key for key, live in self._live.items() if key not in self._routes and not live.inflight
        ]:
            del self._live[replica_id]

    def routes(self) -> tuple[ReplicaRoute, ...]:
        """Return every replica of the newest snapshot."""
        return tuple(self._routes.values())

    def route(self, replica_id: str) -> ReplicaRoute | None:
        """Return one replica, None when it is gone."""
        return self._routes.get(replica_id)

    def can_answer(self, model: str) -> bool:
        """Return whether a replica of `model` takes new requests."""
        return any(not route.draining for route in self._by_model.get(model, ()))

    def any_can_answer(self) -> bool:
        """Return whether any replica takes new requests (S-35)."""
        return any(not route.draining for route in self._routes.values())

    def candidates(self, model: str) -> list[Candidate]:
        """Return what routing needs to know of each replica of `model`."""
        return [self._candidate(route, self._live[route.id]) for route in self._by_model.get(model, ())]

    def _candidate(self, route: ReplicaRoute, live: _Live) -> Candidate:
        return Candidate(
            id=route.id,
            model=route.model,
            engine=route.engine,
            is_draining=route.draining,
            is_stale=live.failed_scrapes >= STALE_AFTER,
            running=live.gauges.running,
            waiting=live.gauges.waiting,
            kv_use=live.gauges.kv_use,
            inflight=live.inflight,
            inflight_at_scrape=live.inflight_at_scrape,
        )

    def slot(self, replica_id: str) -> "Slot":
        """Return a block that counts one request at a replica for as long as it lasts."""
        return Slot(self, replica_id)

    def begin(self, replica_id: str) -> None:
        """Count one request more at a replica, now used."""
        live = self._live.get(replica_id)
        if live is None:
            live = self._live[replica_id] = _Live()
        live.inflight += 1
        live.last_used_unix = self._wall()

    def end(self, replica_id: str) -> None:
        """Count one less; a replica that is gone is forgotten with its last request."""
        live = self._live[replica_id]
        live.inflight -= 1
        live.last_used_unix = self._wall()
        if not live.inflight and replica_id not in self._routes:
            del self._live[replica_id]

    def inflight_at(self, replica_id: str) -> int:
        """Return our own requests at a replica now."""
        live = self._live.get(replica_id)
        return live.inflight if live is not None else 0

    def scraped(self, replica_id: str, gauges: Gauges, inflight_then: int) -> None:
        """Take a scrape that was asked for when `inflight_then` requests of ours were there."""
        live = self._live.get(replica_id)
        if live is not None:
            live.gauges = gauges
            live.inflight_at_scrape = inflight_then
            live.failed_scrapes = 0

    def scrape_failed(self, replica_id: str) -> None:
        """Count a failed scrape; after the third the replica is stale and its figures are unknown."""
        live = self._live.get(replica_id)
        if live is None:
            return
        live.failed_scrapes += 1
        if live.failed_scrapes >= STALE_AFTER:
            live.gauges = Gauges()

    def connect_failed(self, replica_id: str) -> None:
        """Count a connection that could not be made, for the next report."""
        self._failed_connects[replica_id] += 1

    def inflight(self) -> dict[str, int]:
        """Return replica id to requests now, zeros left out."""
        return {replica_id: live.inflight for replica_id, live in self._live.items() if live.inflight}

    def last_used(self) -> dict[str, float]:
        """Return replica id to the Unix time it was last used, of those used at all."""
        return {
            key: live.last_used_unix for key, live in self._live.items() if live.last_used_unix is not None
        }

    def take_failed_connects(self) -> dict[str, int]:
        """Return the failed connections since the last call."""
        failed, self._failed_connects = dict(self._failed_connects), Counter()
        return failed


class Slot:
    """One request's place at a replica, as a block."""

    __slots__ = ("_replica_id", "_table")

    def __init__(self, table: ReplicaTable, replica_id: str) -> None:
        self._table = table
        self._replica_id = replica_id

    def __enter__(self) -> None:
        self._table.begin(self._replica_id)

    def __exit__(self, *_: object) -> None:
        self._table.end(self._replica_id)
