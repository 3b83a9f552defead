"""One model's replicas against what is wanted: whom to stop, and whether a newer definition is due (L-27, L-28).

A changed definition rolls by replace: one replica of the new kind is made ready first, then one of the old is drained,
and so on. When the extra fits nowhere the old one goes first ("in place"), still one at a time, and a model's only
serving replica waits ten minutes for room before that.
"""

from collections.abc import Sequence

from msgspec import Struct

from llmgw.config.model import ModelDefinition
from llmgw.policy.fingerprint import fingerprint
from llmgw.policy.snapshot import DRAINING, SERVING, STARTING, STOPPING, ReplicaSeen

ROOM_WAIT_S = 600.0


class Census(Struct, frozen=True):
    """A model's replicas by what they count as. `current` match the catalog, `outdated` do not; both are wanted.

    `leaving` drain or stop.
    """

    current: tuple[ReplicaSeen, ...]
    outdated: tuple[ReplicaSeen, ...]
    leaving: tuple[ReplicaSeen, ...]

    def have(self) -> int:
        """Return how many replicas count towards what is wanted."""
        return len(self.current) + len(self.outdated)

    def ready(self) -> int:
        """Return how many of those answer requests."""
        return sum(r.phase == SERVING for r in (*self.current, *self.outdated))


class Removal(Struct, frozen=True):
    """A replica to take away: stopped at once when it serves nobody, else drained first."""

    replica: ReplicaSeen
    reason: str

    def is_drain(self) -> bool:
        """Return whether requests may be in flight, so that it drains first."""
        return self.replica.phase == SERVING


def census(definition: ModelDefinition, replicas: Sequence[ReplicaSeen]) -> Census:
    """Sort a model's replicas by whether they are of the catalog's kind."""
    prints = {p.name: fingerprint(definition, p) for p in definition.profiles}
    staying = [r for r in replicas if r.phase in (STARTING, SERVING)]
    return Census(
        current=tuple(r for r in staying if prints.get(r.profile) == r.fingerprint),
        outdated=tuple(r for r in staying if prints.get(r.profile) != r.fingerprint),
        leaving=tuple(r for r in replicas if r.phase in (DRAINING, STOPPING)),
    )


def victims(replicas: Sequence[ReplicaSeen], count: int, unwanted_nodes: frozenset[str]) -> list[ReplicaSeen]:
    """Return `count` replicas to give up: starting, then on cordoned nodes, most idle, newest (L-27)."""

    def rank(replica: ReplicaSeen) -> tuple[object, ...]:
        is_unwanted = any(s.node in unwanted_nodes for s in replica.shares)
        serves = replica.phase == SERVING
        return (serves, not is_unwanted, replica.inflight, -replica.idle_s, -replica.started_s, replica.id)

    return sorted(replicas, key=rank)[: max(count, 0)]


def surplus(seen: Census, desired: int, unwanted_nodes: frozenset[str]) -> list[Removal]:
    """Return whom to take away because more run than are wanted, the old kind before the new.

    While a replacement starts there is one more than wanted on purpose: a serving replica of the old kind is given up
    only when those of either kind that remain ready are as many as are wanted.
    """
    out = [Removal(r, "its definition changed before it was ready") for r in seen.outdated if r.phase == STARTING]
    old = [r for r in seen.outdated if r.phase == SERVING]
    extra = len(seen.current) + len(old) - desired
    if extra <= 0:
        return out
    if desired == 0 or not old:
        everyone = victims([*old, *seen.current], extra, unwanted_nodes)
        return out + [Removal(r, f"{desired} wanted, {len(seen.current) + len(old)} run") for r in everyone]
    spare = len(old) + sum(r.phase == SERVING for r in seen.current) - desired
    gone = victims(old, min(extra, spare), unwanted_nodes)
    out += [Removal(r, "a replica of the changed definition took its place") for r in gone]
    return out


def wants_replacement(seen: Census, desired: int) -> bool:
    """Return whether one replica of the new kind is due beside the old ones: one at a time, none leaving."""
    starting = any(r.phase == STARTING for r in seen.current)
    return bool(seen.outdated) and seen.have() <= desired and not starting and not seen.leaving


def in_place(seen: Census, room_since_s: float | None, now_s: float) -> Removal | None:
    """Return the old replica to drain first, when a replacement has fitted nowhere since `room_since_s`.

    Called only while `wants_replacement`. None while a model's only serving replica still waits for room.
    """
    is_only = seen.ready() <= 1
    if is_only and (room_since_s is None or now_s - room_since_s < ROOM_WAIT_S):
        return None
    chosen = victims(seen.outdated, 1, frozenset())
    return Removal(chosen[0], "its definition changed and nothing has room for a second one") if chosen else None
