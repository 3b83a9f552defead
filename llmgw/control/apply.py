"""Carrying out a plan: each action changes the leader's book first and is sent after, so that a report that arrives in
between finds what it is about."""

from typing import Any

from llmgw.control.estate import Draw, Estate
from llmgw.control.replicas import Replica
from llmgw.control.start_command import start_command
from llmgw.obs.log import get
from llmgw.policy.placement import Placed
from llmgw.policy.reconcile import Action, Drain, Place, Plan, Release, Stop
from llmgw.policy.snapshot import DRAINING, STARTING, STOPPING
from llmgw.wire.agent import DrainShard, StopShard

STOP_AGAIN_S = 60.0


def apply(estate: Estate, plan: Plan, draw: Draw) -> None:
    """Do what a pass decided."""
    estate.memories = dict(plan.memories)
    estate.notes = dict(plan.notes)
    for action in plan.actions:
        _one(estate, action, draw)


def _one(estate: Estate, action: Action, draw: Draw) -> None:
    if isinstance(action, Place):
        _place(estate, action.placed, draw)
        return
    replica = estate.replicas.get(action.replica)
    if replica is None:
        return
    replica.reason = action.reason
    _log().info(_WORDS[type(action)], replica=replica.id, node=replica.node, why=action.reason)
    if isinstance(action, Release):
        estate.release(replica)
    elif isinstance(action, Drain):
        replica.phase, replica.draining_s = DRAINING, estate.now_s()
        estate.links.send(replica.node, DrainShard(shard_id=replica.shard_id))
    else:
        stop(estate, replica, action.reason)


_WORDS: dict[type, str] = {Release: "replica released", Drain: "replica drains", Stop: "replica stops"}


def stop(estate: Estate, replica: Replica, reason: str) -> None:
    """Ask a node to stop a replica's shard. It holds its share until the node says that it is gone."""
    replica.phase, replica.reason, replica.stop_sent_s = STOPPING, reason, estate.now_s()
    if not replica.is_sent:
        estate.release(replica)  # No agent was ever told of it.
        return
    estate.links.send(replica.node, StopShard(shard_id=replica.shard_id, reason=reason))


def send_again(estate: Estate) -> None:
    """Send what did not leave: starts while a node had no link, and stops nobody has confirmed for a minute."""
    now_s, connected = estate.now_s(), estate.links.connected()
    for replica in estate.replicas:
        if replica.node not in connected:
            continue
        if replica.phase == STARTING and not replica.is_sent:
            send_start(estate, replica)
        elif replica.phase == STOPPING and now_s - (replica.stop_sent_s or 0.0) >= STOP_AGAIN_S:
            stop(estate, replica, replica.reason)


def send_start(estate: Estate, replica: Replica) -> None:
    """Send a replica's start command, if its node has a link."""
    if replica.start is not None:
        replica.is_sent = estate.links.send(replica.node, replica.start)


def _place(estate: Estate, placed: Placed, draw: Draw) -> None:
    """Reserve, record and start one replica (L-25)."""
    definition = estate.catalog[placed.model]
    profile = definition.profile(placed.profile)
    node = estate.inventory.get(placed.share.node)
    port = estate.ports.take(placed.share.node, estate.now_s())
    if profile is None or node is None or port is None:
        _log().warning("no port free on the node", node=placed.share.node, range=estate.settings.port_range)
        return
    replica_id = _new_id(estate, placed.model, draw)
    replica = Replica(
        id=replica_id,
        shard_id=f"{replica_id}-0",
        model=placed.model,
        profile=placed.profile,
        engine=profile.engine,
        pool=placed.pool,
        fingerprint=placed.fingerprint,
        source=definition.source,
        share=placed.share,
        port=port,
        started_s=estate.now_s(),
        started_unix=estate.now_unix(),
        why=placed.why,
        rejections=placed.rejections,
    )
    replica.start = start_command(definition, profile, replica, node.address, estate.key_of(replica_id))
    estate.replicas.add(replica)
    _log().info("replica starts", replica=replica_id, node=node.id, profile=profile.name, port=port, why=placed.why)
    send_start(estate, replica)


def _new_id(estate: Estate, model: str, draw: Draw) -> str:
    while True:
        replica_id = f"{model}-{draw()}"
        if replica_id not in estate.replicas:
            return replica_id


def _log() -> Any:
    """Return the logger as it is configured now; one bound at import would keep the defaults."""
    return get("control.leader")
