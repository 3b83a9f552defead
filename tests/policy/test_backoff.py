from __future__ import annotations

import pytest

from llmgw.policy.backoff import after_failure, after_ready, fresh, is_incurable, passed_over
from llmgw.policy.snapshot import Failures


def fail(failures: Failures, now: float = 0.0, lived: float | None = None, error: str = "x") -> Failures:
    return after_failure(failures, now, node="a", error=error, lived_s=lived, park_after=5)


@pytest.mark.covers("L-60")
def test_starts_count_deaths_count_by_how_long_they_lived_and_ten_minutes_ready_clear() -> None:
    failures = fail(fail(Failures()))
    assert failures.count == 2
    assert fail(failures, lived=599.0).count == 3
    assert fail(failures, lived=600.0).count == 1
    at_50 = fail(failures, now=50.0)
    assert after_ready(at_50, 60.0, 659.0).count == 3
    assert after_ready(at_50, 60.0, 660.0) == Failures()


@pytest.mark.covers("L-60")
def test_a_replica_ready_before_the_failure_clears_nothing() -> None:
    failures = fail(Failures(), now=5000.0)
    assert after_ready(failures, 0.0, 9000.0) == failures


def test_the_fifth_failure_in_a_row_parks_and_ready_does_not_unpark() -> None:
    failures = Failures()
    for count in range(1, 6):
        failures = fail(failures)
        assert failures.is_parked is (count == 5)
    assert after_ready(failures, 1.0, 9000.0).is_parked


def test_what_no_retry_cures_is_told_by_how_the_sentence_begins() -> None:
    assert is_incurable("argument --host is not allowed: it is set by the agent")
    assert is_incurable("adapter x: checksum: it has 3 bytes")
    assert not is_incurable("it exits 1")
    assert not is_incurable("adapter x: http://m/x answers 503")


@pytest.mark.covers("L-61")
def test_nodes_are_passed_over_for_ten_minutes_with_the_reason() -> None:
    failures = fail(Failures(), error="it exits 1")
    assert passed_over(failures, "a", 30.0) == "failed here 30 s ago: it exits 1"
    assert passed_over(failures, "a", 180.0) == "failed here 3 min ago: it exits 1"
    assert passed_over(failures, "b", 30.0) == ""
    assert passed_over(failures, "a", 600.0) == ""
    assert fresh(failures, 600.0).nodes == {}
    assert fresh(failures, 599.0) is failures
