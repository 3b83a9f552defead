"""Striking secrets out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.people.key_text import new_key
from llmgw.store.struck import STRUCK, struck, struck_text


@pytest.mark.parametrize(
    "name",
    ["password", "admin_password", "client-secret", "API_TOKEN", "token", "dsn", "Authorization", "api_key"],
)
def test_a_field_with_a_secret_name_is_struck_whatever_it_holds(name: str) -> None:
    assert struck({name: "x", "plain": "y"}) == {name: STRUCK, "plain": "y"}
    assert struck({name: {"deep": ["x"]}}) == {name: STRUCK}


def test_token_counts_are_no_secrets() -> None:
    assert struck({"max_tokens": 5, "prompt_tokens": 6}) == {"max_tokens": 5, "prompt_tokens": 6}


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_key_inside_any_text_is_struck(before: str, after: str) -> None:
    key = new_key()
    assert key not in struck_text(f"{before} {key} {after}")


def test_a_long_value_is_cut() -> None:
    assert len(struck_text("x" * 5000)) == 2048


def test_plain_values_stay_as_they_are() -> None:
    plain = {"a": 1, "b": [True, None, 2.5], "c": {"d": "https://host/path?x=1"}}
    assert struck(plain) == plain
