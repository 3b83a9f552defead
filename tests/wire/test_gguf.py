"""GGUF headers: a real one, every truncation of it, and claims that no file could hold."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.testing.tiny_gguf import tiny_gguf
from llmgw.wire.gguf import GGUFHeader, HeaderCutShort, LongArray, NotGGUF, read_header

WHOLE = tiny_gguf("chat")


def _file(pairs: list[tuple[str, bytes]], tensors: int = 0, count: int | None = None) -> bytes:
    body = b"".join(struct.pack("<Q", len(key)) + key.encode() + value for key, value in pairs)
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, len(pairs) if count is None else count) + body


def test_a_real_header_is_read_and_knows_how_long_its_file_must_be() -> None:
    header = read_header(WHOLE, len(WHOLE))
    assert (header.version, header.architecture, header.context_length) == (3, "llama", 32768)
    assert header.needs_bytes is not None and len(WHOLE) - 32 < header.needs_bytes <= len(WHOLE)
    assert isinstance(header.metadata["tokenizer.ggml.tokens"], LongArray)
    assert header.text("general.name") == "tiny-chat" and header.text("absent") == ""
    assert header.number("general.name") is None


def test_the_first_part_of_a_file_is_enough_when_it_holds_the_header() -> None:
    assert read_header(WHOLE[:40_000], len(WHOLE)) == read_header(WHOLE, len(WHOLE))
    with pytest.raises(HeaderCutShort):
        read_header(WHOLE[:1000], len(WHOLE))


@pytest.mark.parametrize("cut", [0, 1, 3, 4, 11, 23, 24, 100, 5000, 9000, len(WHOLE) // 2, len(WHOLE) - 64])
def test_a_truncated_file_is_refused_wherever_it_ends(cut: int) -> None:
    with pytest.raises(NotGGUF):
        read_header(WHOLE[:cut], cut)


def test_what_is_no_gguf_is_said_to_be_none() -> None:
    for other in (b"", b"PK\x03\x04" + bytes(100), b"<html>", b"GGUX" + bytes(100)):
        with pytest.raises(NotGGUF, match="not a GGUF file"):
            read_header(other, len(other))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "byte order"),
        (_file([], tensors=1 << 60), "tensors, more than its size"),
        (_file([], count=1 << 60), "metadata pairs, more than its size"),
        (_file([("a", struct.pack("<IIQ", 9, 4, 1 << 60))]), "array elements, more than its size"),
        (_file([("a", struct.pack("<IQ", 8, 1 << 50))]), "more than its"),
        (_file([("a", struct.pack("<IQ", 99, 0))]), "unknown type 99"),
        (_file([("general.alignment", struct.pack("<II", 4, 0))]), "alignment"),
        (_file([("a", struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5 + bytes(12))]), "nests arrays"),
    ],
)
def test_claims_no_file_could_hold_are_refused(data: bytes, words: str) -> None:
    padded = data + bytes(64)
    with pytest.raises(NotGGUF, match=words):
        read_header(padded, len(padded))


@given(st.integers(0, 8000), st.binary(min_size=1, max_size=8))
def test_damage_ends_in_a_header_or_in_a_refusal_and_in_nothing_else(at: int, damage: bytes) -> None:
    data = WHOLE[:at] + damage + WHOLE[at + len(damage) : 20_000]
    try:
        assert isinstance(read_header(data, len(data)), GGUFHeader)
    except NotGGUF as refused:
        assert refused.sentence
