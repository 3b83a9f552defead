from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.config.model import adapters_from_line, decode_model, definition_data
from llmgw.config.refusal import Refused


def raw(**more: Any) -> dict[str, Any]:
    return {"name": "m", "source": "/m", "profiles": [{"name": "cpu", "engine": "sim"}], **more}


def test_durations_at_any_depth_are_read_and_written_as_people_write_them() -> None:
    made = decode_model(raw(profiles=[{"name": "c", "engine": "sim", "ready_timeout": "90s"}], slo={"ttft_p99": "200ms"}))
    assert made.profiles[0].ready_timeout == 90.0
    data = definition_data(made)
    assert (data["profiles"][0]["ready_timeout"], data["slo"]["ttft_p99"]) == ("1m30s", "200ms")
    with pytest.raises(Refused, match=r"model 'm': profiles\[1\]\.ready_timeout 'x'"):
        decode_model(raw(profiles=[{"name": "a", "engine": "sim"}, {"name": "b", "engine": "sim", "ready_timeout": "x"}]))


def test_adapters_in_one_line_become_a_list_and_an_at_sign_without_a_number_is_the_sources() -> None:
    assert adapters_from_line("a=/a.gguf@0.5, b=hf:o/r/f@main,") == [
        {"name": "a", "source": "/a.gguf", "scale": 0.5},
        {"name": "b", "source": "hf:o/r/f@main"},
    ]


def test_a_window_without_bounds_keeps_the_scalings_and_absent_parts_are_left_out() -> None:
    made = decode_model(raw(scaling={"min": 2, "max": 4, "schedule": [{"from": "08:00", "to": "09:00", "min": 5}]}))
    window = made.scaling.schedule[0]
    assert (window.min, window.max) == (5, 5)
    data = definition_data(made)
    assert data["scaling"]["schedule"][0]["from"] == "08:00"
    assert "guard" not in data
    assert data["class"] == "standard"


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)
KEYS = ["profiles", "scaling", "adapters", "slo", "guard", "aliases", "external", "resources", "class", "source"]


@given(st.dictionaries(st.sampled_from(KEYS), json))
def test_whatever_is_written_it_decodes_or_is_refused_in_words(more: dict[str, Any]) -> None:
    try:
        made = decode_model(raw(**more))
    except Refused as refusal:
        assert refusal.status == 400
        assert refusal.sentence.startswith("model 'm': ")
    else:
        assert decode_model(definition_data(made)) == made
