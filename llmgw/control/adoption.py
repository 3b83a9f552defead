"""A node registers: what it runs is matched with what is wanted (P-52, P-122, F-20).

The leader's own book comes first: a shard it knows on that node is brought up to date, a shard it has sent away is
stopped, one it believed in that is not there has died. What is left is adopted when its model still wants it, its
profile still exists and nothing else holds its cards or port; anything else is unclaimed. So a card never has two
owners, whoever came back from where.
"""

from collections.abc import Sequence
from typing import Any

from llmgw.control.apply import send_start
from llmgw.control.estate import Estate
from llmgw.control.inventory import Node
from llmgw.control.replicas import Replica
from llmgw.obs.log import get
from llmgw.policy import schedule
from llmgw.policy.candidates import need_of
from llmgw.policy.snapshot import SERVING, STARTING, STOPPING, Share
from llmgw.wire.agent import RunningShard, ShardState

_ENDED = frozenset({ShardState.STOPPED, ShardState.FAILED})


def take_over(estate: Estate, node: Node, running: Sequence[RunningShard]) -> list[str]:
    """Match a node's shards with what is wanted; return the ids of those to stop."""
    reported = {s.shard_id: s for s in running if s.state not in _ENDED}
    unclaimed: list[str] = []
    for replica in estate.replicas.on_node(node.id):
        shard = reported.pop(replica.shard_id, None)
        if shard is None:
            _absent(estate, replica)
        elif replica.phase == STOPPING:
            unclaimed.append(shard.shard_id)
        else:
            replica.is_sent = True
            replica.compute = shard.compute or replica.compute
            moved(estate, replica, shard.state)
    for shard in reported.values():
        refusal = _adopt(estate, node, shard)
        if refusal:
            unclaimed.append(shard.shard_id)
            _log().info("shard not adopted", node=node.id, shard=shard.shard_id, why=refusal)
    return unclaimed


def moved(estate: Estate, replica: Replica, state: ShardState) -> None:
    """Take in a living state of a replica's shard (P-123)."""
    if replica.phase == STARTING:
        replica.state = state
        if state is ShardState.READY:
            replica.phase, replica.ready_s, replica.fetch = SERVING, estate.now_s(), None


def _absent(estate: Estate, replica: Replica) -> None:
    """Handle a replica whose node came back without it."""
    if replica.phase == STARTING and replica.state is ShardState.PENDING:
        send_start(estate, replica)  # The command was lost with the link, or the agent answers that it has it (P-51).
    elif replica.phase in (STARTING, SERVING):
        estate.fail(replica, "its engine was gone when the node came back")
    else:
        estate.release(replica)


def _adopt(estate: Estate, node: Node, shard: RunningShard) -> str:
    """Take over one running shard; return why not, or ""."""
    refusal = _why_not(estate, node, shard)
    if refusal:
        return refusal
    definition = estate.catalog[shard.model]
    profile = definition.profile(shard.profile)
    if profile is None:
        return f"model {shard.model} has no profile {shard.profile}"
    need = need_of(definition, profile, {w.source: w.bytes for w in node.weights})
    now_s, now_unix = estate.now_s(), estate.now_unix()
    is_ready = shard.state is ShardState.READY
    replica = Replica(
        id=shard.replica_id,
        shard_id=shard.shard_id,
        model=shard.model,
        profile=shard.profile,
        engine=shard.engine or profile.engine,
        pool=shard.pool or profile.gpu_class or "cpu",
        fingerprint=shard.profile_fp,
        source=definition.source,
        share=Share(node=node.id, gpus=tuple(shard.gpu_indices), cores=need.cores, memory_mb=need.memory_mb),
        port=shard.http_port,
        phase=SERVING if is_ready else STARTING,
        state=shard.state,
        started_s=now_s,
        started_unix=now_unix,
        ready_s=now_s if is_ready else None,
        why="adopted: it was running when the node registered",
        compute=shard.compute,
        is_sent=True,
    )
    estate.ports.claim(node.id, shard.http_port)
    estate.replicas.add(replica)
    estate.demand.touch(shard.model, now_s)
    alive = [r for r in estate.replicas.of_model(shard.model) if r.phase in (STARTING, SERVING)]
    if estate.is_young() or shard.model not in estate.notes:
        estate.remember_target(shard.model, len(alive))
    _log().info("shard adopted", node=node.id, shard=shard.shard_id, model=shard.model, state=shard.state.name)
    return ""


def _why_not(estate: Estate, node: Node, shard: RunningShard) -> str:
    if shard.replica_id in estate.replicas or estate.replicas.by_shard(shard.shard_id) is not None:
        return "a replica of that id runs elsewhere"
    if shard.model not in estate.catalog:
        return f"there is no model {shard.model}"
    definition = estate.catalog[shard.model]
    profile = definition.profile(shard.profile)
    if profile is None:
        return f"model {shard.model} has no profile {shard.profile}"
    if shard.nnodes > 1 or shard.rank:
        return "it is one of several ranks, which this release does not run"
    mine = estate.replicas.of_model(shard.model)
    counted = (SERVING,) if shard.state is ShardState.READY else (SERVING, STARTING)
    have = sum(r.phase in counted for r in mine)
    if have >= _limit(estate, shard.model):
        return f"model {shard.model} has the replicas it wants"
    return _clash(estate, node, shard, bool(profile.gpu_class))


def _limit(estate: Estate, model: str) -> int:
    """Return how many replicas of a model may be taken over.

    What is wanted now; but a leader that has just begun does not know what demand had asked for, so it takes over as
    many as the model may ever have, and scaling goes down from there.
    """
    _, most = schedule.bounds(estate.catalog[model].scaling, estate.now_unix(), estate.zone)
    note = estate.notes.get(model)
    return most if note is None or estate.is_young() else note.desired


def _clash(estate: Estate, node: Node, shard: RunningShard, wants_gpus: bool) -> str:
    have = {g.index for g in node.gpus()}
    lost = sorted(set(shard.gpu_indices) - have)
    if lost or (wants_gpus and not shard.gpu_indices):
        return f"it runs on GPUs the node does not have ({lost})"
    for other in estate.replicas.on_node(node.id):
        if other.port == shard.http_port:
            return f"port {shard.http_port} belongs to {other.id}"
        shared = sorted(set(other.share.gpus) & set(shard.gpu_indices))
        if shared:
            return f"GPU {shared[0]} belongs to {other.id}"
    return ""


def _log() -> Any:
    """Return the logger as it is configured now; one bound at import would keep the defaults."""
    return get("control.adoption")
