"""Frames of the agent protocol, in any pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.wire.agent_frames import MAX_MESSAGE_BYTES, BadFlag, FrameDecoder, FrameTooLarge, frame


def _all(decoder: FrameDecoder) -> list[bytes]:
    found: list[bytes] = []
    while (document := decoder.next_document()) is not None:
        found.append(document)
    return found


@pytest.mark.covers("P-3")
def test_a_frame_is_a_zero_a_big_endian_length_and_the_document() -> None:
    assert frame(b"abc") == b"\x00\x00\x00\x00\x03abc"


@given(st.lists(st.binary(max_size=300), max_size=8), st.data())
def test_documents_come_out_whole_however_the_bytes_are_cut(
    documents: list[bytes], data: st.DataObject
) -> None:
    wire = b"".join(frame(document) for document in documents)
    decoder = FrameDecoder()
    found: list[bytes] = []
    at = 0
    while at < len(wire):
        size = data.draw(st.integers(1, 700))
        decoder.feed(wire[at : at + size])
        at += size
        found += _all(decoder)
    assert found == documents
    assert decoder.is_between_messages()


@pytest.mark.covers("P-3")
def test_documents_come_out_whole_when_fed_one_byte_at_a_time() -> None:
    documents = [b"", b"x", b"y" * 70_000]
    decoder = FrameDecoder()
    found: list[bytes] = []
    for byte in b"".join(frame(document) for document in documents):
        decoder.feed(bytes([byte]))
        found += _all(decoder)
    assert found == documents


def test_a_length_over_the_bound_is_refused_at_its_prefix() -> None:
    decoder = FrameDecoder()
    decoder.feed(b"\x00\x80\x00\x00")
    assert decoder.next_document() is None
    decoder.feed(b"\x00")
    with pytest.raises(FrameTooLarge, match="2147483648 bytes"):
        decoder.next_document()


def test_sixteen_mebibytes_pass_and_one_byte_more_does_not() -> None:
    decoder = FrameDecoder()
    decoder.feed(b"\x00" + MAX_MESSAGE_BYTES.to_bytes(4, "big"))
    assert decoder.next_document() is None
    decoder = FrameDecoder()
    decoder.feed(b"\x00" + (MAX_MESSAGE_BYTES + 1).to_bytes(4, "big"))
    with pytest.raises(FrameTooLarge):
        decoder.next_document()


def test_a_message_over_the_bound_is_not_framed_at_all() -> None:
    with pytest.raises(FrameTooLarge):
        frame(bytes(MAX_MESSAGE_BYTES + 1))


@pytest.mark.parametrize("flag", [1, 2, 128, 255])
def test_a_flag_byte_other_than_zero_is_an_error_before_the_length_is_whole(flag: int) -> None:
    decoder = FrameDecoder()
    decoder.feed(bytes([flag]))
    with pytest.raises(BadFlag, match=str(flag)):
        decoder.next_document()


def test_a_stream_that_ends_inside_a_message_is_noticed() -> None:
    decoder = FrameDecoder()
    decoder.feed(frame(b"abc")[:-1])
    assert decoder.next_document() is None
    assert not decoder.is_between_messages()
