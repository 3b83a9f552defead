"""What a node runs when it registers, against what is wanted."""

from __future__ import annotations

import anyio
import pytest

from llmgw.wire.agent import GPU, Compute, RunningShard, ShardState
from tests.control.leader_rig import Rig, model, play

CARDS = [GPU(index=i, gpu_class="l4-22g", memory_total_mb=22_000) for i in range(2)]


def shard(name: str = "chat-aaaaaa", **more: object) -> RunningShard:
    fields: dict[str, object] = {
        "shard_id": f"{name}-0", "replica_id": name, "model": "chat", "profile": "cpu", "engine": "sim", "nnodes": 1,
        "http_port": 20007, "state": ShardState.READY, "pool": "cpu", "profile_fp": "old",
        "compute": Compute(backend="CPU"),
    }  # fmt: skip
    return RunningShard(**{**fields, **more})


def on_gpu() -> dict[str, object]:
    made = model(min=0, max=4)
    made["profiles"] = [{"name": "gpu", "engine": "llamacpp", "gpu_class": "l4-22g"}]
    return made


def run(rig: Rig, *shards: RunningShard, node: str = "a", **more: object) -> list[str]:
    rig.nodes.running[node] = {s.shard_id: s for s in shards}
    return rig.nodes.register(node, **more)


def test_a_running_shard_is_taken_over_with_its_port_pool_compute_and_state() -> None:
    async def scene(rig: Rig) -> None:
        assert run(rig, shard()) == []
        route = rig.leader.replicas()[0]
        assert (route.id, route.port, route.pool, route.host) == ("chat-aaaaaa", 20007, "cpu", "a.example")
        view = rig.leader.replica_views("chat")[0]
        assert view.compute.backend == "CPU"
        assert rig.leader.placement("chat").replicas[0].why.startswith("adopted")

    play(lambda: Rig(model()), scene)


def test_one_whose_fingerprint_differs_is_adopted_and_rolled() -> None:
    async def scene(rig: Rig) -> None:
        run(rig, shard())
        await rig.until(lambda: rig.nodes.drains() == ["chat-aaaaaa-0"])
        assert len(rig.nodes.starts()) == 1

    play(lambda: Rig(model()), scene)


def test_one_that_still_starts_is_adopted_as_starting_and_routed_to_when_ready() -> None:
    async def scene(rig: Rig) -> None:
        assert run(rig, shard(state=ShardState.STARTING)) == []
        assert rig.leader.replicas() == ()
        rig.nodes.say("a", "chat-aaaaaa-0", ShardState.READY)
        assert len(rig.leader.replicas()) == 1

    play(lambda: Rig(model()), scene)


@pytest.mark.covers("E-145")
@pytest.mark.parametrize(
    "wrong",
    [
        {"model": "gone"},
        {"profile": "gone"},
        {"nnodes": 2},
        {"rank": 1},
        {"gpu_indices": [7]},
    ],
)
def test_what_nothing_wants_is_unclaimed(wrong: dict[str, object]) -> None:
    async def scene(rig: Rig) -> None:
        assert run(rig, shard(**wrong)) == ["chat-aaaaaa-0"]
        assert rig.leader.replicas() == ()

    play(lambda: Rig(model()), scene)


def test_an_ended_shard_is_neither_adopted_nor_stopped() -> None:
    async def scene(rig: Rig) -> None:
        assert run(rig, shard(state=ShardState.FAILED)) == []
        assert rig.leader.replicas() == ()

    play(lambda: Rig(model()), scene)


@pytest.mark.covers("F-20")
def test_after_a_pause_copies_are_fenced_by_id_and_a_card_never_has_two_owners() -> None:
    async def scene(rig: Rig) -> None:
        first = shard(profile="gpu", gpu_indices=[0], pool="l4-22g")
        assert run(rig, first, gpus=CARDS) == []
        assert run(rig, first, node="b", gpus=CARDS) == ["chat-aaaaaa-0"], "the same id on another node"
        twin = shard("chat-bbbbbb", profile="gpu", gpu_indices=[0, 1], http_port=20008)
        assert run(rig, first, twin, gpus=CARDS) == ["chat-bbbbbb-0"], "a card that has an owner"
        port = shard("chat-cccccc", profile="gpu", gpu_indices=[1])
        assert run(rig, first, port, gpus=CARDS) == ["chat-cccccc-0"], "a port that has an owner"
        rig.nodes.live.clear()
        await rig.until(lambda: rig.leader.replica_views(None) == [], within_s=120)
        rig.report(waiting={"chat": 1})
        rig.nodes.running["b"] = {}
        rig.nodes.register("b", gpus=CARDS)
        await rig.until(lambda: rig.line().ready == 1)
        assert run(rig, first, gpus=CARDS) == ["chat-aaaaaa-0"], "the model has what it wants by now"
        assert len(rig.leader.replicas()) == 1

    play(lambda: Rig(on_gpu(), adopt_grace=1.0), scene)


def test_a_surplus_that_returns_while_its_replacement_still_starts_is_taken_and_the_start_given_up() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().ready == 1)
        rig.nodes.live.clear()
        rig.nodes.answers = lambda node, command: None
        await anyio.sleep(80)
        rig.nodes.register("b")
        await rig.until(lambda: rig.nodes.starts("b"))
        assert rig.nodes.register("a") == []
        await rig.until(lambda: rig.nodes.stops() == [rig.nodes.starts("b")[0].shard_id])
        assert rig.line().ready == 1

    play(lambda: Rig(model()), scene)
