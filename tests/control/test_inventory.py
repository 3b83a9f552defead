from __future__ import annotations

import pytest

from llmgw.control.inventory import Inventory
from llmgw.wire.agent import GPU, CachedWeight, GPUProblem, Heartbeat, ProvisionStatus, Register

CARDS = [
    GPU(index=0, gpu_class="l4", problems=[GPUProblem(code="foreign_memory", text="9000 MiB already allocated")]),
    GPU(index=1, gpu_class="l4", problems=[GPUProblem(code="ecc_uncorrected", text="2 uncorrected ECC errors")]),
]


def inventory(gpus: list[GPU] | None = None) -> Inventory:
    made = Inventory(20.0, 90.0)
    register = Register(node_id="a", mgmt_addr="10.0.0.1", gpus=gpus or [], cpu_count=4, engines_probed=True)
    made.registered(register, "192.0.2.1", 100.0, 1e9)
    return made


def beat(**more: object) -> Heartbeat:
    fields: dict[str, object] = {"engines_probed": True, "cpu_count": 4}
    return Heartbeat(node_id="a", **{**fields, **more})


def problems(made: Inventory) -> list[str]:
    node = made.get("a")
    assert node is not None and node.seen is not None
    return [g.problem for g in node.seen.gpus]


@pytest.mark.covers("P-46")
def test_a_heartbeat_replaces_foreign_memory_and_leaves_other_problems() -> None:
    made = inventory(CARDS)
    assert problems(made) == ["9000 MiB already allocated", "2 uncorrected ECC errors"]
    assert made.heartbeat(beat(gpu_memory_used_mb=[330, 0], gpu_foreign_memory_mb=[330, 0]), 105.0, 1e9)
    assert problems(made) == ["", "2 uncorrected ECC errors"]
    assert made.heartbeat(beat(gpu_memory_used_mb=[5014, 900], gpu_foreign_memory_mb=[5014, 900]), 110.0, 1e9)
    assert problems(made) == [
        "5014 MiB already allocated by another process",
        "2 uncorrected ECC errors; 900 MiB already allocated by another process",
    ]


@pytest.mark.covers("P-121")
@pytest.mark.parametrize(("used", "foreign"), [([1], []), ([1, 2], [1]), ([1, 2, 3], [1, 2]), ([], [1, 2])])
def test_lists_of_another_length_than_the_cards_are_both_dropped(used: list[int], foreign: list[int]) -> None:
    made = inventory(CARDS)
    made.heartbeat(beat(gpu_memory_used_mb=[7, 7], gpu_foreign_memory_mb=[0, 0]), 105.0, 1e9)
    made.heartbeat(beat(gpu_memory_used_mb=used, gpu_foreign_memory_mb=foreign), 110.0, 1e9)
    node = made.get("a")
    assert node is not None
    assert (node.memory_used_mb, node.foreign_mb) == ([7, 7], [0, 0])


def test_foreign_memory_not_measured_this_time_stands_as_last_measured() -> None:
    made = inventory(CARDS)
    made.heartbeat(beat(gpu_memory_used_mb=[9, 9], gpu_foreign_memory_mb=[0, 0]), 105.0, 1e9)
    assert not made.heartbeat(beat(gpu_memory_used_mb=[8, 8]), 110.0, 1e9)
    assert problems(made)[0] == ""


def test_silence_makes_a_node_unreachable_after_20_s_and_lost_after_90() -> None:
    made = inventory()
    states = {}
    for second in (100, 119, 120, 189, 190):
        made.refresh(float(second), 1e9)
        states[second] = made.get("a").state  # type: ignore[union-attr]
    assert states == {100: "ready", 119: "ready", 120: "unreachable", 189: "unreachable", 190: "lost"}
    made.heartbeat(beat(), 191.0, 1e9)
    assert made.get("a").state == "ready"  # type: ignore[union-attr]


def test_a_node_remembered_from_before_is_unreachable_until_it_registers() -> None:
    made = Inventory(20.0, 90.0)
    made.remember("a", "10.0.0.1", 100.0, 1e9)
    made.refresh(101.0, 1e9)
    assert made.nodes_seen()[0].state == "unreachable"
    assert not made.is_complete()
    assert not made.heartbeat(beat(), 102.0, 1e9)
    made.refresh(190.0, 1e9)
    assert made.nodes_seen()[0].state == "lost"


def test_a_cordon_holds_through_a_new_registration_and_a_missing_address_is_the_peers() -> None:
    made = inventory()
    made.cordon("a", "ann")
    made.registered(Register(node_id="a", cpu_count=2), "192.0.2.1", 101.0, 1e9)
    made.refresh(101.0, 1e9)
    node = made.get("a")
    assert node is not None
    assert (node.state, node.address) == ("cordoned", "192.0.2.1")


@pytest.mark.covers("P-121", "E-188")
def test_heartbeats_renew_weights_engines_and_what_is_installing() -> None:
    made = inventory()
    status = ProvisionStatus(engine="vllm", state="downloading")
    weight = CachedWeight(source="/m", bytes=5)
    assert made.heartbeat(beat(weights=[weight], engine_versions={"sim": "1"}, provision=[status]), 105.0, 1e9)
    seen = made.nodes_seen()[0]
    assert (seen.weights, seen.engines, seen.installing) == ({"/m": 5}, {"sim": "1"}, {"vllm"})
