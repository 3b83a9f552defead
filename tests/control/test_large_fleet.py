"""A leader of many nodes: how long its passes and its explanations take (L-152)."""

from __future__ import annotations

import time

import pytest

from llmgw.config.model import decode_model
from llmgw.policy.catalog import check
from llmgw.policy.fingerprint import fingerprint
from llmgw.wire.agent import RunningShard, ShardState
from tests.control.leader_rig import AUDIT, Rig, model, play

NODES, MODELS, EACH = 200, 20, 50
MOST_S = 1.0


def running(number: int, at: int) -> RunningShard:
    """The `number`-th of all replicas, running on a node as its `at`-th."""
    name = f"m{number % MODELS}"
    definition = check(decode_model(model(name, min=EACH, max=EACH)), {})
    return RunningShard(
        shard_id=f"{name}-{number:06d}-0", replica_id=f"{name}-{number:06d}", model=name, profile="cpu", engine="sim",
        nnodes=1, http_port=20000 + at, state=ShardState.READY, pool="cpu",
        profile_fp=fingerprint(definition, definition.profiles[0]),
    )  # fmt: skip


@pytest.mark.covers("L-152")
def test_a_pass_and_an_explanation_over_200_nodes_and_1000_replicas_take_less_than_a_second() -> None:
    per_node = MODELS * EACH // NODES

    async def scene(rig: Rig) -> None:
        for node in range(NODES):
            shards = [running(node * per_node + at, at) for at in range(per_node)]
            rig.nodes.running[f"n{node:03d}"] = {shard.shard_id: shard for shard in shards}
            assert rig.nodes.register(f"n{node:03d}") == []
        assert len(rig.leader.replicas()) == NODES * per_node == 1000
        # One model wants ten more, so that the pass has nodes to choose among, and one fits nowhere.
        await rig.leader.scale_model("m0", {"min": EACH + 10, "max": EACH + 10}, AUDIT)
        huge = model("huge", min=1)
        huge["profiles"][0]["cpu_cores"] = 64
        await rig.leader.add_model(huge, AUDIT)
        took_s = {}
        for what, act in (
            ("pass", rig.leader.pass_once),
            ("explain", lambda: rig.leader.placement("huge")),
            ("explain", lambda: rig.leader.placement("m0")),
        ):
            began_s = time.perf_counter()
            act()
            took_s[what] = max(took_s.get(what, 0.0), time.perf_counter() - began_s)
        print({what: round(each_s, 3) for what, each_s in took_s.items()})
        assert rig.nodes.starts()
        assert len(rig.leader.placement("huge").profiles[0].rejections) == NODES
        assert max(took_s.values()) < MOST_S

    play(lambda: Rig(*[model(f"m{number}", min=EACH, max=EACH) for number in range(MODELS)]), scene)
