"""The names a client may choose for itself (S-9, X-36)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.refusals import Refusal
from llmgw.gateway.stages.identify import check_names, check_tags, header_tags, request_id
from llmgw.net.http_message import Headers


def headers(**fields: str) -> Headers:
    return Headers([(name.replace("_", "-"), value) for name, value in fields.items()])


@pytest.mark.covers("X-36")
@given(st.text(max_size=200))
def test_a_request_id_has_a_closed_alphabet_whatever_was_offered(offered):
    used = request_id(headers(x_request_id=offered), lambda: "fresh")
    assert used == "fresh" or (used == offered and 1 <= len(used) <= 128)
    assert set(used) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def test_without_an_offered_id_a_new_one_is_made():
    assert request_id(Headers(), lambda: "fresh") == "fresh"


@pytest.mark.covers("X-36")
@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("x_session_id", ["s", "a/b:c", "s" * 256], ["", "s" * 257, "a b", "é"]),
        ("x_llmgw_thread", ["t", "a:b.c_d-e", "t" * 128], ["", "t" * 129, "a/b"]),
        ("x_llmgw_agent", ["a", "a" * 128], ["", "a" * 129, "a,b"]),
    ],
)
def test_other_names_are_refused_when_they_are_too_long_or_odd(name, good, bad):
    assert [check_names(headers(**{name: value})) for value in good] == [None] * len(good)
    assert [check_names(headers(**{name: value})) is None for value in bad] == [False] * len(bad)


def test_tags_of_a_header_are_pairs():
    assert header_tags(headers(x_llmgw_tags="a=1, b = two ,,c=x=y")) == {"a": "1", "b": "two", "c": "x=y"}
    assert header_tags(Headers([("x-llmgw-tags", "a=1"), ("x-llmgw-tags", "b=2")])) == {"a": "1", "b": "2"}
    assert isinstance(header_tags(headers(x_llmgw_tags="a")), Refusal)


@pytest.mark.covers("X-36")
@pytest.mark.parametrize(
    ("tags", "is_refused"),
    [
        ({}, False),
        ({"k" * 64: "v" * 512}, False),
        ({"k" * 65: "v"}, True),
        ({"": "v"}, True),
        ({"k": "v" * 513}, True),
        ({str(number): "" for number in range(16)}, False),
        ({str(number): "" for number in range(17)}, True),
    ],
)
def test_tags_have_bounds(tags, is_refused):
    assert (check_tags(tags) is not None) == is_refused
