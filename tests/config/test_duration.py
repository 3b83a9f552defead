"""Durations read and written as C-10 says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.config.duration import parse_duration_s, render_duration
from llmgw.config.refusal import Refused


@pytest.mark.covers("C-10")
@pytest.mark.parametrize(
    ("written", "seconds"),
    [("30m", 1800.0), ("1h30m", 5400.0), ("200ms", 0.2), ("2160h", 7_776_000.0), (1800, 1800.0), ("0s", 0.0), ("1.5h", 5400.0)],
)
def test_strings_and_whole_seconds_are_read(written: object, seconds: float) -> None:
    assert parse_duration_s(written) == pytest.approx(seconds)


@pytest.mark.covers("C-10")
@pytest.mark.parametrize("written", ["30", "", "m", "-5m", -1, "5 m", "5x", None, True, [], "1h 30m", 1_800_000_000_000])
def test_what_is_not_a_duration_is_refused_with_the_field_named(written: object) -> None:
    with pytest.raises(Refused) as caught:
        parse_duration_s(written, "router.timeouts.dial")
    assert caught.value.status == 400
    assert "router.timeouts.dial" in caught.value.sentence


@pytest.mark.covers("C-10")
def test_a_count_of_nanoseconds_is_told_that_the_unit_is_seconds() -> None:
    with pytest.raises(Refused, match="the unit is seconds"):
        parse_duration_s(1_800_000_000_000)


@given(st.integers(min_value=0, max_value=315_360_000_000))
def test_what_is_rendered_is_read_back_exactly(whole_ms: int) -> None:
    assert round(parse_duration_s(render_duration(whole_ms / 1000)) * 1000) == whole_ms


@pytest.mark.parametrize(("seconds", "text"), [(1800, "30m"), (5400, "1h30m"), (0.2, "200ms"), (0, "0s"), (86_400, "1d")])
def test_rendering_is_the_shortest_exact_form(seconds: float, text: str) -> None:
    assert render_duration(seconds) == text
