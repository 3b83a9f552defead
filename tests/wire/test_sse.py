import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.wire.sse import MAX_EVENT_BYTES, SSEEvent, SSEParser, SSETooLong, encode

FIXTURES = {
    "plain": (b"data: a\n\ndata: b\n\n", [(b"a", ""), (b"b", "")]),
    "carriage returns": (b"data: a\r\n\r\ndata: b\r\n\r\n", [(b"a", ""), (b"b", "")]),
    "bare carriage returns": (b"data: a\r\rdata: b\r\r", [(b"a", ""), (b"b", "")]),
    "a CRLF is one line end": (b"data: a\r\ndata: b\r\n\r\n", [(b"a\nb", "")]),
    "several lines": (b"data: a\ndata: b\n\n", [(b"a\nb", "")]),
    "a type": (b"event: error\ndata: {}\n\n", [(b"{}", "error")]),
    "no space": (b"data:a\n\n", [(b"a", "")]),
    "a comment": (b": ping\n\ndata: a\n\n", [(b"", ""), (b"a", "")]),
    "id and retry": (b"id: 4\nretry: 1\ndata: a\n\n", [(b"a", "")]),
    "a byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [(b"a", "")]),
    "an extra blank line": (b"data: a\n\n\ndata: b\n\n", [(b"a", ""), (b"b", "")]),
    "mixed line ends": (b"data: a\r\n\ndata: b\n\r\n", [(b"a", ""), (b"b", "")]),
    "two spaces keep one": (b"data:  a\n\n", [(b" a", "")]),
}


def read(text: bytes, size: int) -> list[SSEEvent]:
    parser = SSEParser()
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    assert parser.pending == b""
    return events


@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 10_000])
def test_events_are_the_same_however_the_bytes_are_cut(name: str, size: int) -> None:
    text, expected = FIXTURES[name]
    assert [(event.data, event.event) for event in read(text, size)] == expected


@given(st.lists(st.text(max_size=40), max_size=8), st.integers(1, 9))
def test_what_is_encoded_is_read_back(texts: list[str], size: int) -> None:
    stream = b"".join(encode(text.encode("utf-8", "surrogatepass")) for text in texts)
    # An event's own line ends all become "\n": the format has no other way to write them.
    expected = [re.sub(r"\r\n|\r", "\n", text).encode("utf-8", "surrogatepass") for text in texts]
    assert [event.data for event in read(stream, size)] == expected


@given(st.binary(max_size=300), st.integers(1, 20))
def test_raw_bytes_of_any_input_are_neither_lost_nor_changed(text: bytes, size: int) -> None:
    text = text.replace(b"\r", b"").removeprefix(b"\xef\xbb\xbf")
    parser = SSEParser()
    raw = b"".join(event.raw for at in range(0, len(text), size) for event in parser.feed(text[at : at + size]))
    assert raw + parser.pending == text


def test_an_event_cut_at_every_offset_arrives_whole() -> None:
    text = "data: 漢字かな交じり文 👩‍👩‍👧‍👦🏳️‍🌈 한국어\n\n".encode()
    for at in range(len(text)):
        parser = SSEParser()
        events = parser.feed(text[:at]) + parser.feed(text[at:])
        assert [event.raw for event in events] == [text]


def test_an_event_without_its_blank_line_stays_pending() -> None:
    parser = SSEParser()
    assert parser.feed(b"data: a\n\ndata: cut of") == [SSEEvent(b"data: a\n\n", b"a")]
    assert parser.pending == b"data: cut of"


def test_an_event_that_never_ends_is_refused() -> None:
    parser = SSEParser()
    for _ in range(MAX_EVENT_BYTES // 65_536):
        parser.feed(b"x" * 65_536)
    with pytest.raises(SSETooLong):
        parser.feed(b"x")


def test_large_reads_are_not_taken_for_a_large_event() -> None:
    events = SSEParser().feed(encode(b"x" * 1000) * 2000)
    assert len(events) == 2000


def test_a_type_is_encoded() -> None:
    assert encode(b"{}", "error") == b"event: error\ndata: {}\n\n"
