"""Choosing a replica over made-up states."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.policy.routing.candidate import Candidate
from llmgw.policy.routing.pick import choose

first = lambda n: 0  # noqa: E731
last = lambda n: n - 1  # noqa: E731


def replica(id: str, **facts) -> Candidate:
    return Candidate(id=id, model="m", **facts)


def chosen(*candidates: Candidate, excluded=(), random_below=first) -> str | None:
    found = choose(candidates, "m", excluded, random_below)
    return found and found.id


def test_the_least_loaded_replica_is_chosen():
    assert chosen(replica("a", running=3.0, waiting=1.0), replica("b", running=2.0, waiting=0.0)) == "b"


def test_what_was_sent_since_the_scrape_counts():
    busy = replica("a", running=0.0, waiting=0.0, inflight=5, inflight_at_scrape=0)
    assert chosen(busy, replica("b", running=2.0, waiting=0.0)) == "b"


@pytest.mark.covers("S-42")
def test_a_stale_replica_is_last_but_is_used_when_it_is_alone():
    stale = replica("a", is_stale=True)
    assert chosen(stale, replica("b", running=50.0, waiting=9.0)) == "b"
    assert chosen(stale) == "a"


def test_ties_are_random_and_only_among_the_best():
    tied = (replica("a", inflight=1), replica("b"), replica("c"))
    assert chosen(*tied, random_below=first) == "b"
    assert chosen(*tied, random_below=last) == "c"


def test_the_random_source_is_asked_only_about_ties():
    asked = []
    choose([replica("a"), replica("b", inflight=1)], "m", (), lambda n: asked.append(n) or 0)
    assert asked == []


def test_draining_tried_and_other_models_replicas_are_never_chosen():
    other = Candidate(id="o", model="other")
    assert chosen(replica("a", is_draining=True), replica("b"), other, excluded=("b",)) is None


def test_more_free_cache_decides_between_equal_loads():
    assert chosen(replica("a", running=1.0, kv_use=0.9), replica("b", running=1.0, kv_use=0.1)) == "b"


states = st.builds(
    Candidate,
    id=st.text("abcdef", min_size=1, max_size=4),
    model=st.just("m"),
    engine=st.sampled_from(["vllm", "trtllm", "llamacpp"]),
    is_draining=st.booleans(),
    is_stale=st.booleans(),
    running=st.none() | st.floats(0, 100),
    waiting=st.none() | st.floats(0, 100),
    kv_use=st.none() | st.floats(0, 1),
    inflight=st.integers(0, 50),
    inflight_at_scrape=st.integers(0, 50),
)


@given(st.lists(states, max_size=8), st.randoms(use_true_random=False))
def test_a_fresh_usable_replica_always_beats_a_stale_one(candidates, random):
    found = choose(candidates, "m", (), random.randrange)
    usable = [candidate for candidate in candidates if not candidate.is_draining]
    assert (found is None) == (not usable)
    if found is not None:
        assert not found.is_draining
        assert not found.is_stale or all(candidate.is_stale for candidate in usable)
