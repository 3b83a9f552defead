"""The summary's numbers are recomputed here from the listings, as 32 section 3 says them."""

from __future__ import annotations

import pytest

from llmgw.policy.summary import summarize
from llmgw.wire.admin import ClassGPUsView, ModelLine, NodeView, ReplicaView, ShardView


def box(name: str, state: str = "ready", *, free: int = 0, total: int = 0, ill: int = 0, **more: object) -> NodeView:
    cards = (ClassGPUsView(gpu_class="l4", total=total, free=free, unhealthy=ill),) if total else ()
    fields: dict[str, object] = {"class_gpus": cards, "gpu_total": total, "gpu_free": free}
    return NodeView(id=name, address="", state=state, **{**fields, **more})


def copy(name: str, state: str = "ready", idle: int = 0, gpus: int = 0) -> ReplicaView:
    shard = ShardView(id=f"{name}-0", rank=0, node="a", gpus=tuple(map(str, range(gpus))), state=state)
    return ReplicaView(id=name, model="m", profile="p", engine="sim", state=state, shards=(shard,), idle_seconds=idle)


def line(name: str, *, ready: int, desired: int, **more: object) -> ModelLine:
    return ModelLine(name=name, ready=ready, desired=desired, status="x", **{"total": ready, **more})


@pytest.mark.covers("L-100")
def test_nodes_count_by_state_and_anything_else_is_unreachable() -> None:
    states = ["ready", "ready", "cordoned", "draining", "unreachable", "lost", "odd"]
    counts = summarize("1", [box(str(i), s) for i, s in enumerate(states)], [], []).nodes
    assert (counts.total, counts.ready, counts.cordoned, counts.draining, counts.unreachable) == (7, 2, 1, 1, 3)


@pytest.mark.covers("L-101", "C-52")
def test_cards_count_per_class_and_a_class_merely_listed_or_not_listed_is_not_lost() -> None:
    nodes = [box("a", total=4, free=1, ill=1, classes=("a100",)), box("b", total=2, free=2)]
    mig = ClassGPUsView(gpu_class="a-mig-1g", total=7, free=7, unhealthy=0)
    nodes.append(box("c", class_gpus=(mig, ClassGPUsView(gpu_class="l4", total=1, free=0, unhealthy=0))))
    found = {g.gpu_class: (g.total, g.used, g.unhealthy) for g in summarize("1", nodes, [], []).gpus}
    assert found == {"a-mig-1g": (7, 0, 0), "a100": (0, 0, 0), "l4": (7, 3, 1)}
    assert list(found) == sorted(found)


@pytest.mark.covers("L-102")
def test_fabrics_are_islands_and_only_ready_wholly_free_nodes_make_a_block() -> None:
    nodes = [
        box("a", total=2, free=2, fabrics=("ib", "roce"), models=("x", "y")),
        box("b", total=2, free=1, fabrics=("ib",), models=("x",)),
        box("c", "cordoned", total=2, free=2, fabrics=("ib",)),
        box("d", fabrics=("roce",)),
    ]
    ib, roce = summarize("1", nodes, [], []).fabrics
    assert (ib.fabric, ib.nodes, ib.nodes_with_weights, ib.models_present, ib.largest_free_block) == ("ib", 3, 2, 2, 1)
    assert (roce.nodes, roce.nodes_with_weights, roce.models_present, roce.largest_free_block) == (2, 1, 2, 1)


@pytest.mark.covers("L-103")
def test_replicas_count_by_state_and_anything_else_is_starting() -> None:
    states = ["ready", "pending", "fetching", "starting", "draining", "failed", "odd"]
    counts = summarize("1", [], [copy(str(i), s) for i, s in enumerate(states)], []).replicas
    assert (counts.ready, counts.starting, counts.draining, counts.failed) == (1, 4, 1, 1)


@pytest.mark.covers("L-104")
def test_models_are_measured_by_what_is_wanted_now() -> None:
    models = [
        line("z-fine", ready=1, desired=1),
        line("asleep", ready=0, desired=0, on_demand=True),
        line("asked", ready=0, desired=1, on_demand=True, unplaceable=True),
        line("starting", ready=0, desired=1, total=1),
        line("nothing", ready=1, desired=2),
        line("parked", ready=1, desired=1, parked=True, failures=5, reason="x"),
        line("marked", ready=1, desired=2, total=2, unplaceable=True),
    ]
    found = summarize("1", [], [], models)
    assert (found.models.total, found.models.satisfied, found.models.short) == (7, 2, 5)
    assert found.unplaceable == ("asked", "marked", "nothing")
    assert [(p.model, p.failures, p.reason) for p in found.parked] == [("parked", 5, "x")]


@pytest.mark.covers("L-105")
def test_replicas_unused_for_ten_minutes_are_listed_longest_first_with_their_cards() -> None:
    replicas = [copy("a", idle=599), copy("b", idle=600, gpus=2), copy("c", idle=9000), copy("d", "draining", 9000)]
    found = summarize("1", [], replicas, []).idle_replicas
    assert [(i.id, i.idle_seconds, i.gpus) for i in found] == [("c", 9000, 0), ("b", 600, 2)]
