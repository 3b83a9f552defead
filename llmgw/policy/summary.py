"""The fleet in one answer (L-100..L-105, 32 section 3), computed from the listings themselves so that they agree."""

from collections import Counter
from collections.abc import Sequence

from llmgw.wire.admin import (
    ClassUse,
    FabricUse,
    IdleView,
    ModelCounts,
    ModelLine,
    NodeCounts,
    NodeView,
    ParkedView,
    ReplicaCounts,
    ReplicaView,
    Summary,
)

IDLE_FROM_S = 600
"""Minutes, so that flapping is not noise."""


def summarize(
    version: str, nodes: Sequence[NodeView], replicas: Sequence[ReplicaView], models: Sequence[ModelLine]
) -> Summary:
    """Return the summary of these listings. `version` is the running process's release."""
    short = [m for m in models if not is_satisfied(m)]
    return Summary(
        version=version,
        nodes=_node_counts(nodes),
        gpus=_class_use(nodes),
        fabrics=_fabric_use(nodes),
        replicas=_replica_counts(replicas),
        models=ModelCounts(total=len(models), satisfied=len(models) - len(short), short=len(short)),
        unplaceable=tuple(sorted(m.name for m in short if m.unplaceable or (not m.parked and m.total <= m.ready))),
        parked=tuple(
            ParkedView(model=m.name, failures=m.failures, reason=m.reason)
            for m in sorted(models, key=lambda m: m.name)
            if m.parked
        ),
        idle_replicas=_idle(replicas),
    )


def is_satisfied(model: ModelLine) -> bool:
    """Return whether as many replicas are ready as are wanted now; a parked model never is (L-104)."""
    return not model.parked and model.ready >= model.desired


def _node_counts(nodes: Sequence[NodeView]) -> NodeCounts:
    states = Counter(n.state for n in nodes)
    known = states["ready"] + states["cordoned"] + states["draining"]
    return NodeCounts(
        total=len(nodes),
        ready=states["ready"],
        cordoned=states["cordoned"],
        draining=states["draining"],
        unreachable=len(nodes) - known,
    )


def _class_use(nodes: Sequence[NodeView]) -> tuple[ClassUse, ...]:
    """Sum the cards by class. A class merely listed is shown with zeros, one not listed is not lost."""
    sums: dict[str, list[int]] = {klass: [0, 0, 0] for n in nodes for klass in n.classes}
    for node in nodes:
        for cards in node.class_gpus:
            total, used, unhealthy = sums.setdefault(cards.gpu_class, [0, 0, 0])
            sums[cards.gpu_class] = [
                total + cards.total,
                used + cards.total - cards.free - cards.unhealthy,
                unhealthy + cards.unhealthy,
            ]
    return tuple(
        ClassUse(gpu_class=klass, total=total, used=used, unhealthy=unhealthy)
        for klass, (total, used, unhealthy) in sorted(sums.items())
    )


def _fabric_use(nodes: Sequence[NodeView]) -> tuple[FabricUse, ...]:
    out: list[FabricUse] = []
    for fabric in sorted({f for n in nodes for f in n.fabrics}):
        here = [n for n in nodes if fabric in n.fabrics]
        out.append(
            FabricUse(
                fabric=fabric,
                nodes=len(here),
                nodes_with_weights=sum(bool(n.models) for n in here),
                models_present=len({m for n in here for m in n.models}),
                largest_free_block=sum(n.state == "ready" and n.gpu_free == n.gpu_total > 0 for n in here),
            )
        )
    return tuple(out)


def _replica_counts(replicas: Sequence[ReplicaView]) -> ReplicaCounts:
    states = Counter(r.state for r in replicas)
    settled = states["ready"] + states["draining"] + states["failed"]
    return ReplicaCounts(
        ready=states["ready"],
        starting=len(replicas) - settled,
        draining=states["draining"],
        failed=states["failed"],
    )


def _idle(replicas: Sequence[ReplicaView]) -> tuple[IdleView, ...]:
    idle = [r for r in replicas if r.state == "ready" and r.idle_seconds >= IDLE_FROM_S]
    idle.sort(key=lambda r: (-r.idle_seconds, r.id))
    return tuple(
        IdleView(id=r.id, model=r.model, idle_seconds=r.idle_seconds, gpus=sum(len(s.gpus) for s in r.shards))
        for r in idle
    )
