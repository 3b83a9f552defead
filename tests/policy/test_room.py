from __future__ import annotations

import pytest

from llmgw.policy.room import room_of
from llmgw.policy.snapshot import GPUSeen, NodeSeen, Share
from tests.policy.builds import definition, node, replica

CHAT = definition()


@pytest.mark.covers("L-42")
def test_a_gpu_has_one_owner_and_one_with_a_problem_is_neither_used_nor_free() -> None:
    cards = (
        GPUSeen(0, "l4"),
        GPUSeen(1, "l4", problem="2 uncorrected ECC errors"),
        GPUSeen(2, "l4"),
        GPUSeen(1000, "l4-mig-1g"),
    )
    room = room_of([NodeSeen(id="a", gpus=cards)], []).nodes["a"]
    assert room.free_gpus("l4") == (0, 2)
    assert room.free_gpus("l4-mig-1g") == (1000,), "an instance is a GPU of its own class"
    held = room.with_share(Share(node="a", gpus=(0,)), "chat")
    assert held.free_gpus("l4") == (2,)
    assert held.with_share(Share(node="a", gpus=(2,)), "chat").free_gpus("l4") == ()


def test_a_stopping_replica_holds_its_share_but_no_longer_counts_as_one_of_the_model() -> None:
    room = room_of([node("a")], [replica(CHAT, "c-1", "a"), replica(CHAT, "c-2", "a", "stopping")]).nodes["a"]
    assert room.free_cores() == 12
    assert room.models == {"chat": 1}
    assert room.replica_count() == 1


def test_taking_changes_a_copy_and_an_unknown_node_changes_nothing() -> None:
    room = room_of([node("a", weights={"/m": 3}), node("b", weights={"/m": 5})], [])
    after = room.taking(Share(node="a", cores=4), "chat")
    assert (room.nodes["a"].free_cores(), after.nodes["a"].free_cores()) == (16, 12)
    assert room.taking(Share(node="z", cores=4), "chat") is room
    assert room.weight_bytes == {"/m": 5}


def test_an_emptied_node_is_its_hardware_alone() -> None:
    busy = room_of([node("a", gpus=1, state="cordoned")], [replica(CHAT, "c-1", "a")]).nodes["a"].emptied()
    assert (busy.node.state, busy.free_cores(), busy.free_gpus("l4-22g")) == ("ready", 16, (0,))
