"""One pass: a snapshot in, what to do and why out (23 section 2). Nothing here waits, reads a clock or draws a number.

The order is L-24's: free what was lost, stop what is not wanted, scale down, place what is missing by class and then
by how long it has waited, and only then the extra replica of a changed definition. What has no room is never a
failure (L-64): it is told in the plan's notes.
"""

from msgspec import Struct
from msgspec.structs import replace

from llmgw.policy import rolling, scaling, schedule
from llmgw.policy.catalog import CLASSES
from llmgw.policy.placement import BUSY, NoRoom, Placed, place
from llmgw.policy.rolling import Census, Removal
from llmgw.policy.room import Room, room_of
from llmgw.policy.snapshot import (
    CORDONED,
    DRAINING,
    DRAINING_NODE,
    LOST,
    SERVING,
    STARTING,
    Memory,
    ModelSeen,
    ReplicaSeen,
    Snapshot,
)


class Release(Struct, frozen=True):
    """Forget a replica whose node is lost; nothing is sent."""

    replica: str
    reason: str


class Stop(Struct, frozen=True):
    """Stop a replica's shards now."""

    replica: str
    reason: str


class Drain(Struct, frozen=True):
    """Take a replica out of routing; it is stopped once nothing is in flight."""

    replica: str
    reason: str


class Place(Struct, frozen=True):
    """Start a replica there."""

    placed: Placed


Action = Release | Stop | Drain | Place


class Note(Struct, frozen=True):
    """What a pass found about a model. `no_room` is set when a wanted replica fitted nowhere."""

    desired: int = 0
    least: int = 0
    most: int = 0
    have: int = 0
    no_room: NoRoom | None = None
    sentence: str = ""


MOST_PLACED = 32
"""Replicas placed by one pass at most. A large catalog that starts all at once takes several passes, so that reports
are heard and gateways are told in between."""


class Plan(Struct, frozen=True):
    """What to do, in order, what to remember, and what was found. `is_partial`: more is to be placed at once."""

    actions: tuple[Action, ...]
    memories: dict[str, Memory]
    notes: dict[str, Note]
    is_partial: bool = False


class _Draft:
    """The plan in the making: the room shrinks as replicas are placed into it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.actions: list[Action] = []
        self.gone: set[str] = set()
        self.room: Room = Room(nodes={})
        self.memories: dict[str, Memory] = {}
        self.notes: dict[str, Note] = {}
        self.placed = 0
        self.is_partial = False

    def remove(self, removal: Removal) -> None:
        """Drain or stop one replica."""
        kind = Drain if removal.is_drain() else Stop
        self.actions.append(kind(removal.replica.id, removal.reason))


def plan(snapshot: Snapshot) -> Plan:
    """Return what one pass does."""
    draft = _Draft(snapshot)
    _free_lost(draft)
    remaining = [r for r in snapshot.replicas if r.id not in draft.gone]
    _reap(draft, remaining)
    draft.room = room_of(snapshot.nodes, remaining)
    by_model: dict[str, list[ReplicaSeen]] = {}
    for replica in remaining:
        by_model.setdefault(replica.model, []).append(replica)
    counted: list[tuple[ModelSeen, Census]] = []
    for model in sorted(snapshot.models, key=lambda m: m.definition.name):
        seen = rolling.census(model.definition, by_model.get(model.definition.name, []))
        _decide(draft, model, seen)
        counted.append((model, seen))
    for model, seen in counted:
        _scale_down(draft, model, seen)
    counted.sort(key=lambda pair: _urgency(draft, pair[0]))
    for model, seen in counted:
        _place_missing(draft, model, seen)
    for model, seen in counted:
        _roll(draft, model, seen)
    return Plan(tuple(draft.actions), draft.memories, draft.notes, draft.is_partial)


def _free_lost(draft: _Draft) -> None:
    lost = {n.id for n in draft.snapshot.nodes if n.state == LOST}
    for replica in draft.snapshot.replicas:
        node = next((s.node for s in replica.shares if s.node in lost), None)
        if node is not None:
            draft.gone.add(replica.id)
            draft.actions.append(Release(replica.id, f"node {node} is lost"))


def _reap(draft: _Draft, replicas: list[ReplicaSeen]) -> None:
    """Stop what has drained, and take away the replicas of models that are no longer in the catalog."""
    now_s, patience_s = draft.snapshot.now_s, draft.snapshot.drain_timeout_s
    known = {m.definition.name for m in draft.snapshot.models}
    for replica in replicas:
        if replica.phase == DRAINING and replica.draining_s is not None:
            if replica.inflight == 0 and replica.is_quiet:
                draft.actions.append(Stop(replica.id, "drained"))
            elif now_s - replica.draining_s >= patience_s:
                cut = f"{replica.inflight} requests still in flight after {patience_s:.0f} s"
                draft.actions.append(Stop(replica.id, cut))
        elif replica.model not in known and replica.phase in (STARTING, SERVING):
            draft.remove(Removal(replica, "its model was removed"))


def _decide(draft: _Draft, model: ModelSeen, seen: Census) -> None:
    """Set how many are wanted, and since when there are too few."""
    snapshot, definition = draft.snapshot, model.definition
    wanted = scaling.decide(
        definition.scaling,
        schedule.bounds(definition.scaling, snapshot.now_unix, snapshot.zone),
        model.load,
        model.memory.scale,
        ready=seen.ready(),
        slots=scaling.slots_of(definition),
        now_s=snapshot.now_s,
    )
    is_short = seen.have() < wanted.desired
    since = model.memory.short_since_s
    draft.memories[definition.name] = Memory(
        scale=wanted.state,
        short_since_s=(snapshot.now_s if since is None else since) if is_short else None,
        room_since_s=model.memory.room_since_s if seen.outdated else None,
    )
    draft.notes[definition.name] = Note(
        desired=wanted.desired, least=wanted.least, most=wanted.most, have=seen.have(), sentence=wanted.sentence
    )


def _scale_down(draft: _Draft, model: ModelSeen, seen: Census) -> None:
    unwanted = frozenset(n.id for n in draft.snapshot.nodes if n.state in (CORDONED, DRAINING_NODE))
    for removal in rolling.surplus(seen, draft.notes[model.definition.name].desired, unwanted):
        draft.remove(removal)


def _urgency(draft: _Draft, model: ModelSeen) -> tuple[int, float, str]:
    since = draft.memories[model.definition.name].short_since_s
    return (
        CLASSES.index(model.definition.klass),
        draft.snapshot.now_s if since is None else since,
        model.definition.name,
    )


def _may_start(draft: _Draft, model: ModelSeen) -> bool:
    failures = model.failures
    return not (draft.snapshot.is_settling or failures.is_parked or draft.snapshot.now_s < failures.retry_s)


def _place_missing(draft: _Draft, model: ModelSeen, seen: Census) -> None:
    """Place until as many run as are wanted. A replica that is only starting in its old kind is not one of them."""
    name = model.definition.name
    have = len(seen.current) + sum(r.phase == SERVING for r in seen.outdated)
    missing = draft.notes[name].desired - have
    if not _may_start(draft, model):
        return
    for _ in range(missing):
        if not _try_place(draft, model):
            return


def _try_place(draft: _Draft, model: ModelSeen) -> bool:
    if draft.placed >= MOST_PLACED:
        draft.is_partial = True
        return False
    found = place(model.definition, draft.room, model.failures, draft.snapshot.now_s)
    name = model.definition.name
    if isinstance(found, NoRoom):
        draft.notes[name] = replace(draft.notes[name], no_room=found)
        return False
    draft.placed += 1
    draft.room = draft.room.taking(found.share, name)
    draft.actions.append(Place(found))
    return True


def _roll(draft: _Draft, model: ModelSeen, seen: Census) -> None:
    """Start the replacement of one outdated replica, or make room for it in place."""
    name, now_s = model.definition.name, draft.snapshot.now_s
    note = draft.notes[name]
    if not (_may_start(draft, model) and rolling.wants_replacement(seen, note.desired)):
        return
    is_short = seen.have() < note.desired
    if is_short and note.no_room is None:
        return
    found = note.no_room or place(model.definition, draft.room, model.failures, now_s)
    memory = draft.memories[name]
    if isinstance(found, Placed):
        draft.room = draft.room.taking(found.share, name)
        draft.actions.append(Place(found))
        draft.memories[name] = replace(memory, room_since_s=None)
        return
    since = now_s if memory.room_since_s is None else memory.room_since_s
    draft.memories[name] = replace(memory, room_since_s=since)
    removal = rolling.in_place(seen, since, now_s)
    if removal is not None and BUSY in found.verdicts.values():
        draft.remove(removal)
