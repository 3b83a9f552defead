import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.wire.jsonbounds import depth, is_too_deep, utf8_fault


def measure(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max((measure(item) for item in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((measure(item) for item in value), default=0)
    return 0


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='[]{}"\\,:aé\n', max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='[{"\\', max_size=3), inner, max_size=3),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_depth_is_that_of_the_value_whatever_its_texts_hold(value: Any, ascii_only: bool) -> None:
    assert depth(json.dumps(value, ensure_ascii=ascii_only).encode()) == measure(value)


def test_the_limit_is_the_last_depth_accepted() -> None:
    assert not is_too_deep(b"[" * 128 + b"]" * 128)
    assert is_too_deep(b"[" * 129 + b"]" * 129)
    assert not is_too_deep(b"[" + b"[]," * 500 + b"[]]")


def test_an_endless_text_full_of_quotes_is_looked_at_once() -> None:
    # Read anew from each quote this would take hours.
    assert depth(b'"' + b'\\"[' * 1_000_000) == 0
    assert depth(b'"\\') == 0


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        (b"plain", None),
        ("漢字 👩‍👩‍👧".encode(), None),
        (b"ab\xff", 2),
        ("é".encode() * 40_000 + b"\xc3", 80_000),
        (b"x" * 65_535 + "é".encode() + b"\xff", 65_537),
        (b"x" * 65_535 + b"\xc3(", 65_535),
        (b"\xed\xa0\x80", 0),
        (b"a\xc0\xaf", 1),
    ],
)
def test_the_first_byte_that_is_not_utf8_is_found(text: bytes, offset: int | None) -> None:
    assert utf8_fault(text) == offset


@given(st.binary(max_size=200), st.integers(65_500, 65_540))
def test_faults_are_where_the_plain_decoder_finds_them(text: bytes, pad: int) -> None:
    text = b"x" * pad + text
    expected = None
    try:
        text.decode()
    except UnicodeDecodeError as error:
        expected = error.start
    assert utf8_fault(text) == expected
