"""Another leader takes over while a replica loads (L-153)."""

from __future__ import annotations

import anyio
import pytest

from llmgw.wire.agent import ShardState, StartShard
from tests.control.leader_rig import Rig, model, play, works


@pytest.mark.covers("L-153")
def test_a_new_leader_neither_starts_again_what_loads_nor_stops_what_serves() -> None:
    first = Rig(model("serving"), model("loading"))
    first.nodes.answers = lambda node, command: (
        None if isinstance(command, StartShard) and command.model == "loading" else works(node, command)
    )

    async def before(rig: Rig) -> None:
        rig.nodes.register("a")
        await rig.until(lambda: rig.line("serving").ready == 1)
        await rig.until(lambda: len(rig.nodes.starts()) == 2)
        await rig.until(lambda: set(rig.keeper.nodes) == {"a"})
        assert rig.line("loading").ready == 0

    async def after(rig: Rig) -> None:
        (loading,) = (shard for shard in rig.nodes.running["a"].values() if shard.model == "loading")
        assert loading.state is ShardState.STARTING
        assert rig.nodes.register("a") == []
        await anyio.sleep(120)
        assert rig.nodes.sent == []
        assert (rig.line("serving").ready, rig.line("loading").ready) == (1, 0)
        rig.nodes.say("a", loading.shard_id, ShardState.READY)
        assert {route.id for route in rig.leader.replicas()} >= {loading.replica_id}
        await anyio.sleep(120)
        assert rig.nodes.sent == []
        assert rig.leader.term() == 2

    play(lambda: first, before)
    second = Rig(model("serving"), model("loading"), keeper=first.keeper)
    second.nodes.running = first.nodes.running
    play(lambda: second, after)
