from __future__ import annotations

import pytest

from llmgw.policy.candidates import domains_of, need_of, order, rejection, share_on, why
from llmgw.policy.room import room_of
from llmgw.policy.snapshot import Failures
from tests.policy.builds import definition, node, profile, replica

CHAT = definition()
NEED = need_of(CHAT, CHAT.profiles[0], {})


def test_only_a_past_failure_is_a_soft_reason() -> None:
    room = room_of([node("a")], []).nodes["a"]
    assert rejection(NEED, room, Failures(), 0.0) is None
    failed = rejection(NEED, room, Failures(count=1, nodes={"a": (0.0, "it exits 1")}), 5.0)
    assert failed is not None
    assert (failed.is_soft, failed.reason) == (True, "failed here 5 s ago: it exits 1")
    hard = rejection(NEED, room_of([node("a", state="draining")], []).nodes["a"], Failures(), 0.0)
    assert hard is not None
    assert (hard.is_soft, hard.reason) == (False, "draining")


@pytest.mark.covers("L-112", "L-47")
def test_racks_and_pdus_of_the_models_nodes_are_counted_once_each() -> None:
    near = node("a", labels={"llmgw.io/rack": "r1", "llmgw.io/pdu": "p1, p2"})
    far = node("b", labels={"llmgw.io/rack": "r2", "llmgw.io/pdu": "p2"})
    room = room_of([near, far, node("c")], [replica(CHAT, "c-1", "a")])
    domains = domains_of(room, "chat")
    assert domains == {"rack:r1", "pdu:p1", "pdu:p2"}
    assert [order(NEED, room.nodes[n], domains)[0] for n in "abc"] == [3, 1, 0]
    assert "3 racks or PDUs shared" in why(NEED, room.nodes["a"], domains, 2)


def test_a_share_names_the_cards_it_takes() -> None:
    big = definition(profiles=[profile("gpu", gpu_class="l4-22g", gpus_per_node=2)])
    need = need_of(big, big.profiles[0], {})
    share = share_on(need, room_of([node("a", gpus=3)], []).nodes["a"])
    assert (share.gpus, share.cores, share.memory_mb) == ((0, 1), 2, 1024)


def test_a_file_that_is_never_fetched_is_not_called_missing() -> None:
    for source, words in (("/m.gguf", "its file is read where it lies"), ("hf:org/repo/m.gguf", "weights not here yet")):
        model = definition(source=source)
        room = room_of([node("a")], []).nodes["a"]
        assert words in why(need_of(model, model.profiles[0], {}), room, frozenset(), 1)
