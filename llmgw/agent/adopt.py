"""Finding running engines again after the agent's own restart (E-140..E-142, P-52).

Engines outlive the agent on purpose: nothing a user sees may depend on its restarts. What was saved is believed only
when the very process is still there; whatever else carries our mark is ended, so that nothing holds a GPU for nobody.
"""

import anyio
import anyio.abc

from llmgw.agent.engines.adapter import CannotStart
from llmgw.agent.engines.registry import EngineRegistry
from llmgw.agent.exit_report import LAST_LINES
from llmgw.agent.saved import SavedShard
from llmgw.agent.shards import Shard, ShardTable
from llmgw.agent.supervisor import Supervisor
from llmgw.obs import log
from llmgw.wire.agent import ShardState


async def adopt_saved(
    supervisor: Supervisor,
    registry: EngineRegistry,
    shards: ShardTable,
    ready_timeout_s: float,
    tasks: anyio.abc.TaskGroup,
) -> int:
    """Take over every saved shard whose process still runs; end and forget the others. Returns how many were adopted.

    An adopted shard is STARTING until it answers; that is waited for in `tasks`, at most `ready_timeout_s` each.
    """
    saved, faults = supervisor.saved.read_all()
    for fault in faults:
        log.get("agent.shards").warning(fault)
    running = [one for one in saved if one.identity().is_running()]
    adopted = frozenset(one.spec.shard_id for one in running)
    ended = await supervisor.end_strays(saved, adopted)
    for one in saved:
        if one.spec.shard_id not in adopted:
            supervisor.saved.remove(one.spec.shard_id)
    if ended:
        log.get("agent.shards").warning("ended engines of an earlier run that nothing explains", groups=ended)
    for one in running:
        _adopt(one, supervisor, registry, shards, ready_timeout_s, tasks)
    return len(running)


def _adopt(
    saved: SavedShard,
    supervisor: Supervisor,
    registry: EngineRegistry,
    shards: ShardTable,
    ready_timeout_s: float,
    tasks: anyio.abc.TaskGroup,
) -> None:
    shard = shards.add(saved.spec, ShardState.STARTING)
    supervisor.watch_adopted(shard, saved)
    tasks.start_soon(_become_ready, shard, supervisor, registry, ready_timeout_s)


async def _become_ready(
    shard: Shard, supervisor: Supervisor, registry: EngineRegistry, ready_timeout_s: float
) -> None:
    """Check an adopted shard like a new one; what it fails is reported by the link's watch (P-58 c)."""
    with anyio.CancelScope() as shard.starting:
        try:
            adapter = registry.adapter(shard.spec.profile.engine)
            await supervisor.become_ready(shard, adapter, ready_timeout_s)
            log.get("agent.shards").info("adopted a running engine", shard=shard.shard_id)
        except CannotStart as fault:
            output = await supervisor.last_output(shard, LAST_LINES)
            await supervisor.stop(shard, grace_s=5.0)
            log.get("agent.shards").warning("adopted engine failed", shard=shard.shard_id, reason=fault.sentence)
            shard.fail(fault.sentence, shard.exit_code, output)
    shard.starting = None
