from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llmgw.policy.gpu_choice import choose_gpus, nvlink_components
from llmgw.policy.snapshot import GPUSeen


def card(index: int, peers: tuple[int, ...] = (), numa: int = -1) -> GPUSeen:
    return GPUSeen(index=index, klass="x", nvlink_peers=peers, numa_node=numa)


PAIRS = [card(0, (1,), 0), card(1, (0,), 0), card(2, (), 0), card(3, (4,), 1), card(4, (3,), 1)]


def test_a_lone_card_goes_before_one_of_a_pair_and_a_pair_is_taken_whole() -> None:
    assert choose_gpus(PAIRS, range(5), 1) == (2,)
    assert choose_gpus(PAIRS, range(5), 2) == (0, 1)
    assert choose_gpus(PAIRS, [0, 2, 3, 4], 2) == (3, 4)


def test_without_a_linked_group_one_numa_node_is_preferred_and_then_anything() -> None:
    assert choose_gpus(PAIRS, [0, 2, 3], 2) == (0, 2)
    assert choose_gpus(PAIRS, [2, 3], 2) == (2, 3)
    assert choose_gpus(PAIRS, [2, 3], 3) == ()


def test_links_told_by_one_side_only_still_join() -> None:
    assert nvlink_components([card(0, (1,)), card(1), card(2)]) == [frozenset({0, 1}), frozenset({2})]


@given(st.integers(1, 8), st.sets(st.integers(0, 7)), st.data())
def test_what_is_chosen_is_free_distinct_and_of_the_size_asked(count: int, free: set[int], data: st.DataObject) -> None:
    peers = {i: data.draw(st.sets(st.integers(0, 7), max_size=2)) - {i} for i in range(8)}
    cards = [card(i, tuple(peers[i]), data.draw(st.integers(-1, 1))) for i in range(8)]
    chosen = choose_gpus(cards, free, count)
    assert len(set(chosen)) == len(chosen) == (count if len(free) >= count else 0)
    assert set(chosen) <= free
