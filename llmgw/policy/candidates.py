"""Which nodes may take one replica of a profile (L-41), each refusal with its sentence, and in which order (L-47)."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from llmgw.config.model import ModelDefinition, Profile
from llmgw.policy import backoff
from llmgw.policy.catalog import MIG_ALONE, is_mig
from llmgw.policy.fingerprint import cores
from llmgw.policy.gpu_choice import choose_gpus
from llmgw.policy.room import NodeRoom, Room
from llmgw.policy.snapshot import READY, UNREACHABLE, Failures, Share

MEMORY_UNKNOWN_GB = 4.0
_GIB = 1024**3


class Rejection(Struct, frozen=True):
    """Why a node did not take a replica of a profile. `is_soft`: it would, if nothing else did (L-61)."""

    profile: str
    node: str
    reason: str
    is_soft: bool = False


class Need(Struct, frozen=True):
    """What one replica of a profile takes on each of its nodes."""

    definition: ModelDefinition
    profile: Profile
    gpus: int
    cores: int
    memory_mb: int


def need_of(definition: ModelDefinition, profile: Profile, weight_bytes: Mapping[str, int]) -> Need:
    """Return what a replica reserves. Memory not given: file size x 1.2 + 1 GB on the CPU when known, else 4 GB."""
    override = definition.resources.min_memory_gb if definition.resources else 0.0
    memory_gb = override or profile.min_memory_gb
    if not memory_gb:
        size = weight_bytes.get(definition.source, 0)
        known = size > 0 and not profile.gpu_class
        memory_gb = size / _GIB * 1.2 + 1 if known else MEMORY_UNKNOWN_GB
    return Need(
        definition=definition,
        profile=profile,
        gpus=max(profile.gpus_per_node, 1) if profile.gpu_class else 0,
        cores=cores(definition, profile),
        memory_mb=round(memory_gb * 1024),
    )


def share_on(need: Need, room: NodeRoom) -> Share:
    """Return what the replica takes of a node that passed the filters."""
    gpus: tuple[int, ...] = ()
    if need.gpus:
        of_class = [g for g in room.node.gpus if g.klass == need.profile.gpu_class]
        gpus = choose_gpus(of_class, room.free_gpus(need.profile.gpu_class), need.gpus)
    return Share(node=room.node.id, gpus=gpus, cores=need.cores, memory_mb=need.memory_mb)


def rejection(need: Need, room: NodeRoom, failures: Failures, now_s: float) -> Rejection | None:
    """Return the first filter of L-41 that a node does not pass, or None when it may take the replica."""
    reason = next(_reasons(need, room), "")
    if reason:
        return Rejection(profile=need.profile.name, node=room.node.id, reason=reason)
    failed = backoff.passed_over(failures, room.node.id, now_s)
    return Rejection(profile=need.profile.name, node=room.node.id, reason=failed, is_soft=True) if failed else None


def _reasons(need: Need, room: NodeRoom) -> Iterator[str]:
    node, profile = room.node, need.profile
    if node.state != READY:
        yield UNREACHABLE if node.state == "lost" else node.state
    yield from _selector_reasons(need, room)
    yield from _engine_reasons(profile.engine, room)
    if is_mig(profile.gpu_class) and max(profile.tp, profile.pp, need.gpus, profile.nodes) > 1:
        yield MIG_ALONE
    if profile.gpu_class:
        yield from _gpu_reasons(need, room)
    if room.free_memory_mb() < need.memory_mb:
        usable, free = room.usable_memory_mb(), room.free_memory_mb()
        yield f"{_gb(free)} of {_gb(usable)} GB memory free, needs {_gb(need.memory_mb)}"
    if room.free_cores() < need.cores:
        yield f"{max(room.free_cores(), 0)} of {node.cpu_count} cores free, needs {need.cores}"


def _selector_reasons(need: Need, room: NodeRoom) -> Iterator[str]:
    for key, wanted in sorted(need.profile.node_selector.items()):
        found = room.node.labels.get(key)
        if found is None:
            yield f"label {key} is not set, wants {wanted}"
        elif found != wanted:
            yield f"label {key} is {found}, wants {wanted}"


def _engine_reasons(engine: str, room: NodeRoom) -> Iterator[str]:
    """An engine that the probe has not finished looking for is not held against a node (P-121)."""
    if engine in room.node.engines:
        return
    if engine in room.node.installing:
        yield f"{engine} is still installing"
    elif room.node.engines_probed:
        yield f"no {engine}"


def _gpu_reasons(need: Need, room: NodeRoom) -> Iterator[str]:
    klass = need.profile.gpu_class
    of_class = [g for g in room.node.gpus if g.klass == klass]
    if not of_class:
        yield f"no GPU of class {klass}"
    free = room.free_gpus(klass)
    if len(free) < need.gpus:
        ill = "".join(f"; GPU {g.index}: {g.problem}" for g in of_class if g.problem)
        yield f"{len(free)} of {len(of_class)} free, needs {need.gpus}{ill}"


def _gb(mb: int) -> str:
    return f"{max(mb, 0) / 1024:.1f}"


def order(need: Need, here: NodeRoom, near: frozenset[str]) -> tuple[int, int, int, int, int, str]:
    """Return the place of a node among those that fit, the smallest first (L-47). `near` is `domains_of`'s answer.

    Racks and PDUs shared with the model's other replicas; replicas of the model here; an engine only hoped for; no
    weights here; for GPUs the fewest left of the class, on the CPU the fewest replicas; the id.
    """
    model, klass = need.definition.name, need.profile.gpu_class
    return (
        len(_domains(here) & near) if near else 0,
        here.models.get(model, 0),
        0 if need.profile.engine in here.node.engines else 1,
        0 if need.definition.source in here.node.weights else 1,
        len(here.free_gpus(klass)) - need.gpus if klass else here.replica_count(),
        here.node.id,
    )


def why(need: Need, here: NodeRoom, near: frozenset[str], of: int) -> str:
    """Return one sentence on why the replica went to this node (L-93). `of`: how many nodes fitted."""
    shared, same, unsure, far, left, _ = order(need, here, near)
    parts = ["the only node that fits" if of == 1 else f"first of {of} nodes that fit"]
    if shared:
        parts.append(f"{shared} racks or PDUs shared with other replicas")
    parts.append(f"{same} replicas of the model here")
    is_path = need.definition.source.startswith("/")
    missing = "its file is read where it lies" if is_path else "weights not here yet"
    parts.append(missing if far else "holds the weights")
    parts.append(f"{left} GPUs of the class left" if need.gpus else f"{left} replicas here")
    return ", ".join(parts) + (", its engines are still being looked for" if unsure else "")


def _domains(room: NodeRoom) -> frozenset[str]:
    labels = room.node.labels
    found = {f"rack:{labels['llmgw.io/rack']}"} if labels.get("llmgw.io/rack") else set[str]()
    found |= {f"pdu:{p.strip()}" for p in labels.get("llmgw.io/pdu", "").split(",") if p.strip()}
    return frozenset(found)


def domains_of(room: Room, model: str) -> frozenset[str]:
    """Return the racks and PDUs of the nodes a model already runs on."""
    return frozenset(d for r in room.nodes.values() if r.models.get(model) for d in _domains(r))
