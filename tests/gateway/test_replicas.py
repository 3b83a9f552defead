"""The live state of replicas."""

import pytest

from llmgw.gateway.replicas import STALE_AFTER, Gauges, ReplicaTable
from llmgw.ports import ReplicaRoute


def route(id: str, draining: bool = False) -> ReplicaRoute:
    return ReplicaRoute(id, "m", "cpu", "llamacpp", "127.0.0.1", 1, "k", "m", "/metrics", draining)


def table(*routes: ReplicaRoute) -> ReplicaTable:
    made = ReplicaTable(lambda: 50.0)
    made.replace(routes)
    return made


def test_a_slot_ends_with_its_block_however_that_ends():
    replicas = table(route("a"))
    with pytest.raises(RuntimeError), replicas.slot("a"):
        assert replicas.inflight() == {"a": 1}
        raise RuntimeError
    assert replicas.inflight() == {}
    assert replicas.last_used() == {"a": 50.0}


@pytest.mark.covers("S-42")
def test_three_failed_scrapes_make_a_replica_stale_and_a_good_one_fresh():
    replicas = table(route("a"))
    replicas.scraped("a", Gauges(1.0, 2.0, 0.5), 0)
    for number in range(STALE_AFTER):
        assert replicas.candidates("m")[0].is_stale is False, number
        assert replicas.candidates("m")[0].running == 1.0
        replicas.scrape_failed("a")
    assert replicas.candidates("m")[0].is_stale
    assert replicas.candidates("m")[0].running is None
    replicas.scraped("a", Gauges(3.0), 0)
    assert (replicas.candidates("m")[0].is_stale, replicas.candidates("m")[0].running) == (False, 3.0)


def test_live_state_outlasts_a_snapshot_and_ends_with_the_last_request():
    replicas = table(route("a"))
    with replicas.slot("a"):
        replicas.replace([])
        assert replicas.inflight() == {"a": 1}
        assert replicas.candidates("m") == []
    assert replicas.inflight() == {}
    assert replicas.last_used() == {}


def test_a_draining_replica_cannot_answer():
    assert not table(route("a", draining=True)).can_answer("m")
    assert not table(route("a", draining=True)).any_can_answer()
    assert table(route("a", draining=True), route("b")).can_answer("m")
    assert not table(route("b")).can_answer("other")


def test_failed_connects_are_told_once():
    replicas = table(route("a"))
    replicas.connect_failed("a")
    replicas.connect_failed("a")
    assert replicas.take_failed_connects() == {"a": 2}
    assert replicas.take_failed_connects() == {}


def test_a_scrape_of_a_replica_that_is_gone_is_ignored():
    replicas = table()
    replicas.scraped("x", Gauges(), 0)
    replicas.scrape_failed("x")
    assert replicas.routes() == ()
