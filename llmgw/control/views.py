"""What the admin API shows of the leader's book, as `llmgw.wire.admin` shapes it."""

from collections.abc import Sequence

from llmgw.config.model import ModelDefinition
from llmgw.control.estate import Estate
from llmgw.control.inventory import Node
from llmgw.control.replicas import Replica
from llmgw.control.routes import model_status
from llmgw.policy.candidates import Rejection
from llmgw.policy.snapshot import DRAINING, LOST, SERVING, STARTING, UNREACHABLE
from llmgw.wire.admin import (
    ClassGPUsView,
    ComputeView,
    DiskView,
    EngineView,
    FetchView,
    GPUView,
    LoadView,
    MIGView,
    ModelLine,
    NodeView,
    RejectionView,
    ReplicaView,
    ShardView,
    rfc3339,
)
from llmgw.wire.agent import GPU, GPUSensor, ShardState


def node_view(estate: Estate, node: Node) -> NodeView:
    """Return one node. Its cards are filled in; the listing's caller leaves them out."""
    here = estate.replicas.on_node(node.id)
    gpus = gpu_views(node, here)
    register = node.register
    return NodeView(
        id=node.id,
        address=node.address,
        state=UNREACHABLE if node.state == LOST else node.state,
        since=rfc3339(node.state_since_unix) if node.state_since_unix else "",
        last_seen=rfc3339(node.last_seen_unix) if node.last_seen_unix else "",
        version=register.version if register else "",
        os=register.os if register else "",
        arch=register.arch if register else "",
        cpu_count=node.cpu_count,
        cpu_model=register.cpu_model if register else "",
        memory_bytes=register.memory_total_bytes if register else 0,
        memory_free_bytes=node.load.memory_available_bytes,
        disk=_disks(node),
        load=_load(node),
        labels=dict(node.labels),
        fabrics=tuple(f.fabric for f in register.fabrics) if register else (),
        classes=tuple(sorted({g.gpu_class for g in gpus})),
        class_gpus=_by_class(gpus),
        gpu_total=len(gpus),
        gpu_free=sum(g.healthy and not g.replica for g in gpus),
        models=_models_held(estate, node),
        engines=_engines(node),
        replicas=tuple(r.id for r in here),
        warnings=_warnings(estate, node),
        gpus=gpus,
    )


def gpu_views(node: Node, here: Sequence[Replica]) -> tuple[GPUView, ...]:
    """Return the node's cards with who holds them. A card with a problem is neither used nor free."""
    holders = {index: r for r in here for index in r.share.gpus}
    sensors = {s.index: s for s in node.load.gpus}
    return tuple(
        _gpu(node, place, gpu, holders.get(gpu.index), sensors.get(gpu.mig.parent_index if gpu.mig else gpu.index))
        for place, gpu in enumerate(node.gpus())
    )


def _gpu(node: Node, place: int, gpu: GPU, holder: Replica | None, sensor: GPUSensor | None) -> GPUView:
    problems = node.problems(place, gpu)
    mig = gpu.mig
    return GPUView(
        node=node.id,
        index=gpu.index,
        name=gpu.name,
        gpu_class=gpu.gpu_class,
        uuid=gpu.uuid,
        mig=MIGView(card=mig.parent_index, device=mig.device, profile=mig.profile) if mig else None,
        memory_total_mb=gpu.memory_total_mb,
        memory_used_mb=node.memory_used_mb[place] if place < len(node.memory_used_mb) else gpu.memory_used_mb,
        foreign_mb=node.foreign_mb[place] if place < len(node.foreign_mb) else 0,
        utilization_percent=_measured(sensor.utilization_percent, -1) if sensor else None,
        temp_c=_measured(sensor.temp_c) if sensor else None,
        power_w=_measured(sensor.power_w) if sensor else None,
        power_limit_w=_measured(sensor.power_limit_w) if sensor else None,
        throttle=tuple(sensor.throttle) if sensor else (),
        healthy=not problems,
        problem="; ".join(p.text or p.code for p in problems),
        replica=holder.id if holder else "",
        model=holder.model if holder else "",
    )


def _measured(value: float, unknown: float = 0) -> float | None:
    return None if value == unknown else value


def _by_class(gpus: Sequence[GPUView]) -> tuple[ClassGPUsView, ...]:
    return tuple(
        ClassGPUsView(
            gpu_class=klass,
            total=sum(g.gpu_class == klass for g in gpus),
            free=sum(g.gpu_class == klass and g.healthy and not g.replica for g in gpus),
            unhealthy=sum(g.gpu_class == klass and not g.healthy for g in gpus),
        )
        for klass in sorted({g.gpu_class for g in gpus})
    )


def _disks(node: Node) -> tuple[DiskView, ...]:
    if not node.disk_total_bytes:
        return ()
    return (DiskView(path="weights", total=node.disk_total_bytes, free=node.disk_free_bytes),)


def _load(node: Node) -> LoadView | None:
    load = node.load
    if not load.memory_total_bytes:
        return None
    return LoadView(
        cpu_percent=round(load.cpu_percent, 1),
        memory_percent=round(100 * load.memory_used_bytes / load.memory_total_bytes, 1),
        cpu_temp_c=load.cpu_temp_c or None,
        cpu_power_w=load.cpu_power_w or None,
        inlet_temp_c=load.inlet_temp_c or None,
    )


def _models_held(estate: Estate, node: Node) -> tuple[str, ...]:
    sources = {w.source for w in node.weights}
    return tuple(d.name for d in estate.catalog if d.source in sources)


def _engines(node: Node) -> tuple[EngineView, ...]:
    usable = {e: EngineView(engine=e, version=v, state="ready") for e, v in node.engine_versions.items()}
    coming = {
        p.engine: EngineView(engine=p.engine, version=p.version, variant=p.variant, state=p.state, detail=p.detail)
        for p in node.provision
    }
    return tuple(view for _, view in sorted({**coming, **usable}.items()))


def _warnings(estate: Estate, node: Node) -> tuple[str, ...]:
    out: list[str] = []
    if node.register is None:
        out.append("known from before, but it has not registered with this control plane")
    elif not node.engines_probed:
        out.append("its agent is still looking for engines")
    elif not node.engine_versions:
        out.append("no engine was found on it; nothing can be placed here")
    if node.id not in estate.links.connected() and node.register is not None:
        out.append("its agent is not connected")
    return tuple(out)


def replica_view(estate: Estate, replica: Replica) -> ReplicaView:
    """Return one replica."""
    gpus = gpu_labels(estate, replica)
    shard = ShardView(
        id=replica.shard_id,
        rank=0,
        node=replica.node,
        gpus=gpus,
        port=replica.port,
        state=_shard_word(replica),
        error=replica.error,
    )
    fetch, compute = replica.fetch, replica.compute
    return ReplicaView(
        id=replica.id,
        model=replica.model,
        profile=replica.profile,
        engine=replica.engine,
        state=replica.word(),
        desired_weights=replica.source,
        pool=replica.pool,
        node=replica.node,
        shards=(shard,),
        compute=ComputeView(
            backend=compute.backend,
            devices=tuple(compute.devices),
            layers_offloaded=compute.layers_offloaded if compute.layers_total else None,
            layers_total=compute.layers_total or None,
        )
        if compute
        else None,
        fetch=FetchView(source=fetch.source, done=fetch.done_bytes, total=fetch.total_bytes or None)
        if fetch
        else None,
        started_at=rfc3339(replica.started_unix) if replica.started_unix else "",
        idle_seconds=int(replica.idle_s(estate.now_unix())) if replica.phase == SERVING else 0,
        inflight=replica.inflight,
        error=replica.error,
        rejections=rejection_views(replica.rejections),
    )


def _shard_word(replica: Replica) -> str:
    if replica.phase == STARTING:
        return ShardState(replica.state).name.lower()
    return replica.phase


def gpu_labels(estate: Estate, replica: Replica) -> tuple[str, ...]:
    """Return a replica's cards as people name them: `0`, or `0/mig2` for an instance (L-93)."""
    node = estate.inventory.get(replica.node)
    by_index = {g.index: g for g in node.gpus()} if node else {}
    out: list[str] = []
    for index in replica.share.gpus:
        gpu = by_index.get(index)
        out.append(f"{gpu.mig.parent_index}/mig{gpu.mig.device}" if gpu and gpu.mig else str(index))
    return tuple(out)


def rejection_views(rejections: Sequence[Rejection]) -> tuple[RejectionView, ...]:
    """Return rejections as the API shows them."""
    return tuple(RejectionView(node=r.node, reason=r.reason) for r in rejections)


def model_line(estate: Estate, definition: ModelDefinition) -> ModelLine:
    """Return one model of the list."""
    name = definition.name
    standing, failures, note = model_status(estate, name), estate.failures_of(name), estate.notes.get(name)
    mine = [r for r in estate.replicas.of_model(name) if r.phase in (STARTING, SERVING, DRAINING)]
    return ModelLine(
        name=name,
        role=definition.role,
        engine=definition.profiles[0].engine if definition.profiles else "",
        klass=definition.klass,
        owner=definition.owner,
        ready=sum(r.phase == SERVING for r in mine),
        desired=note.desired if note else 0,
        total=len(mine),
        min=definition.scaling.min,
        max=definition.scaling.max,
        status=standing.word,
        on_demand=definition.scaling.min == 0,
        parked=failures.is_parked,
        failures=failures.count,
        reason=standing.reason,
        unplaceable=standing.is_unplaceable,
        source=definition.source,
        declared=estate.catalog.is_declared(name),
        adapters=tuple(a.name for a in definition.adapters),
        fallbacks=definition.fallbacks,
    )
