"""Scaling windows across midnight, clock changes and time zones."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from llmgw.config.model import Scaling, ScheduleWindow
from llmgw.policy.schedule import bounds, minutes

BERLIN, YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")


def at(text: str) -> float:
    """Unix seconds of a UTC time."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def scaling(*windows: tuple[str, str, int, int], days: tuple[str, ...] = (), prewarm: float = 0.0) -> Scaling:
    made = tuple(ScheduleWindow(start=f, end=t, min=low, max=high, days=days) for f, t, low, high in windows)
    return Scaling(min=1, max=2, schedule=made, prewarm=prewarm)


def test_a_window_holds_from_its_start_to_just_before_its_end_on_its_days() -> None:
    office = scaling(("08:00", "18:00", 3, 5), days=("mon", "tue"))
    assert bounds(office, at("2026-03-02T07:59:59"), UTC) == (1, 2)
    assert bounds(office, at("2026-03-02T08:00:00"), UTC) == (3, 5)
    assert bounds(office, at("2026-03-03T17:59:59"), UTC) == (3, 5)
    assert bounds(office, at("2026-03-03T18:00:00"), UTC) == (1, 2)
    assert bounds(office, at("2026-03-04T12:00:00"), UTC) == (1, 2)


def test_a_window_past_midnight_belongs_to_the_day_it_starts() -> None:
    night = scaling(("22:00", "06:00", 0, 1), days=("fri",))
    assert bounds(night, at("2026-03-06T23:00:00"), UTC) == (0, 1)
    assert bounds(night, at("2026-03-07T05:59:00"), UTC) == (0, 1)
    assert bounds(night, at("2026-03-07T06:00:00"), UTC) == (1, 2)
    assert bounds(night, at("2026-03-06T05:00:00"), UTC) == (1, 2)


@pytest.mark.covers("L-2")
def test_the_first_window_listed_wins() -> None:
    both = scaling(("08:00", "18:00", 3, 3), ("00:00", "23:59", 4, 4))
    assert bounds(both, at("2026-03-02T09:00:00"), UTC) == (3, 3)
    assert bounds(both, at("2026-03-02T19:00:00"), UTC) == (4, 4)


@pytest.mark.parametrize(("zone", "opens"), [(BERLIN, "2026-01-15T07:00:00"), (YORK, "2026-01-15T13:00:00")])
def test_windows_are_of_the_clusters_time_zone(zone: ZoneInfo, opens: str) -> None:
    office = scaling(("08:00", "18:00", 3, 5))
    assert bounds(office, at(opens) - 1, zone) == (1, 2)
    assert bounds(office, at(opens), zone) == (3, 5)


def test_a_window_whose_start_is_skipped_in_spring_opens_at_once_when_the_clock_jumps() -> None:
    early = scaling(("02:30", "05:00", 3, 3))
    assert bounds(early, at("2026-03-29T00:59:59"), BERLIN) == (1, 2)
    assert bounds(early, at("2026-03-29T01:00:00"), BERLIN) == (3, 3)
    assert bounds(early, at("2026-03-29T03:00:00"), BERLIN) == (1, 2)


def test_a_window_that_starts_in_the_repeated_hour_of_autumn_stays_open_through_it() -> None:
    early = scaling(("02:30", "05:00", 3, 3))
    states = [bounds(early, at("2026-10-25T00:30:00") + 60 * step, BERLIN)[0] for step in range(211)]
    assert states[0] == 3
    assert 1 not in states[:210]
    assert states[210] == 1


def test_prewarm_raises_the_min_before_the_window_also_over_midnight() -> None:
    early = scaling(("00:10", "06:00", 4, 4), prewarm=1800.0)
    assert bounds(early, at("2026-03-02T23:39:00"), UTC) == (1, 2)
    assert bounds(early, at("2026-03-02T23:40:01"), UTC) == (4, 4)
    low = scaling(("08:00", "09:00", 0, 1), prewarm=600.0)
    assert bounds(low, at("2026-03-02T07:55:00"), UTC) == (1, 2)


def test_max_0_stops_the_model_whatever_its_windows_say() -> None:
    stopped = Scaling(min=1, max=0, schedule=scaling(("08:00", "18:00", 3, 5)).schedule)
    assert bounds(stopped, at("2026-03-02T12:00:00"), UTC) == (0, 0)


@pytest.mark.parametrize("text", ["", "8:00", "24:00", "08:60", "08.00", "aa:bb", "0800", "08:000"])
def test_what_is_no_time_of_day_is_none(text: str) -> None:
    assert minutes(text) is None
