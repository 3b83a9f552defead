import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.wire.http1 import (
    LAST_CHUNK,
    Body,
    BrokenAnswer,
    End,
    Event,
    Head,
    Malformed,
    RequestParser,
    ResponseParser,
    StatusHead,
    chunk,
    encode_head,
)

HOST = b"Host: a\r\n"
GET = b"GET /a?b HTTP/1.1\r\n" + HOST + b"\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def joined(events: list[Event]) -> list[Event]:
    """Return the events with neighbouring pieces of a body made one, so that any cut of the bytes reads the same."""
    out: list[Event] = []
    for event in events:
        if isinstance(event, Body) and out and isinstance(out[-1], Body):
            out[-1] = Body(out[-1].data + event.data)
        else:
            out.append(event)
    return out


def read(data: bytes, size: int) -> list[Event]:
    parser = RequestParser()
    return joined([event for at in range(0, len(data), size) for event in parser.feed(data[at : at + size])])


def head(method: str, target: str, length: int | None, *fields: tuple[str, str], keeps: bool = True) -> Head:
    return Head(method, target, "1.1", [("host", "a"), *fields], length, keeps, expects_continue=False)


WHOLE = {
    "get": (GET, [head("GET", "/a?b", 0), End()]),
    "two in a row": (GET + GET, [head("GET", "/a?b", 0), End()] * 2),
    "a length": (
        POST + b"Content-Length: 3\r\n\r\nabc",
        [head("POST", "/", 3, ("content-length", "3")), Body(b"abc"), End()],
    ),
    "chunks, extension and trailer": (
        CHUNKED + b"2;x=y\r\nab\r\n1\r\nc\r\n0\r\nTrailer: t\r\n\r\n" + GET,
        [head("POST", "/", None, ("transfer-encoding", "chunked")), Body(b"abc"), End(), head("GET", "/a?b", 0), End()],
    ),
    "empty lines before": (b"\r\n\r\n" + GET, [head("GET", "/a?b", 0), End()]),
    "close": (
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        [head("GET", "/", 0, ("connection", "close"), keeps=False), End()],
    ),
    "an upgrade that is not taken": (
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n" + GET,
        [
            head("GET", "/", 0, ("connection", "upgrade"), ("upgrade", "h2c")),
            End(),
            head("GET", "/a?b", 0),
            End(),
        ],
    ),
    "a body behind an upgrade is no request": (
        POST + b"Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n" % len(GET) + GET + GET,
        [
            head("POST", "/", len(GET), ("connection", "upgrade"), ("upgrade", "h2c"), ("content-length", str(len(GET)))),
            Body(GET),
            End(),
            head("GET", "/a?b", 0),
            End(),
        ],
    ),
    "chunks behind an upgrade": (
        POST + b"Connection: upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + GET,
        [
            head("POST", "/", None, ("connection", "upgrade"), ("upgrade", "h2c"), ("transfer-encoding", "chunked")),
            Body(b"abc"),
            End(),
            head("GET", "/a?b", 0),
            End(),
        ],
    ),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_requests_read_the_same_however_they_are_cut(name: str, size: int) -> None:
    data, expected = WHOLE[name]
    assert read(data, size) == expected


# What two readers could take differently. Each is refused, and nothing behind it is read as a request.
SMUGGLING = {
    "length and chunks": POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    "the same length twice": POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a list of lengths": POST + b"Content-Length: 3, 3\r\n\r\nabc",
    "a signed length": POST + b"Content-Length: +3\r\n\r\nabc",
    "a negative length": POST + b"Content-Length: -3\r\n\r\nabc",
    "a length in hex": POST + b"Content-Length: 0x3\r\n\r\nabc",
    "a length beyond 64 bits": POST + b"Content-Length: 99999999999999999999999\r\n\r\nabc",
    "an empty length": POST + b"Content-Length: \r\n\r\nabc",
    "an unknown coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "chunked not last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "chunked after another": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked with a control": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "identity": POST + b"Transfer-Encoding: identity\r\n\r\nabc",
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a space in a name": b"GET / HTTP/1.1\r\nHost: a\r\nX y: b\r\n\r\n",
    "a folded line": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
    "a folded line with a tab": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\n",
    "a folded first line": b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
    "bare LF": b"GET / HTTP/1.1\nHost: a\n\n",
    "bare LF after a field": b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    "bare LF ending the head": b"GET / HTTP/1.1\r\nHost: a\r\n\n",
    "bare CR in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
    "NUL in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
    "no name": b"GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n",
    "no colon": b"GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n",
    "a chunk size in 0x": CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
    "a negative chunk size": CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n",
    "a chunk longer than said": CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
    "a chunk size with a space": CHUNKED + b" 3\r\nabc\r\n0\r\n\r\n",
    "a chunk size beyond 64 bits": CHUNKED + b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "bare LF in chunks": CHUNKED + b"3\nabc\n0\n\n",
    "a line end hidden in an extension": CHUNKED + b'3;a="\n"\r\nabc\r\n0\r\n\r\n',
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "a space in the target": b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/2 without asking": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/3.0": b"GET / HTTP/3.0\r\nHost: a\r\n\r\n",
    "CONNECT": b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    "an unknown method": b"FOO / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a lower-case method": b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "an expectation": POST + b"Expect: miracles\r\nContent-Length: 3\r\n\r\nabc",
}


@pytest.mark.parametrize("name", SMUGGLING)
@pytest.mark.parametrize("size", [1, 10_000])
def test_what_could_be_read_two_ways_is_refused_and_ends_the_connection(name: str, size: int) -> None:
    events = read(SMUGGLING[name] + GET, size)
    assert isinstance(events[-1], Malformed)
    assert 400 <= events[-1].status <= 505
    assert not any(isinstance(event, End) for event in events)


@pytest.mark.parametrize("name", ["HTTP/0.9", "HTTP/2 without asking", "HTTP/3.0", "HTTP/1.2"])
@pytest.mark.parametrize("size", [1, 10_000])
def test_another_version_is_505_and_names_those_there_are(name: str, size: int) -> None:
    """HTTP/2 by prior knowledge was answered 400 `Pause on PRI/Upgrade`, which tells nobody what to change."""
    events = read(SMUGGLING.get(name, GET.replace(b"1.1", b"1.2")), size)
    assert events == [Malformed(505, "only HTTP/1.1 and HTTP/1.0 are spoken here")]


def test_what_was_whole_before_a_fault_comes_before_it() -> None:
    parser = RequestParser()
    events = parser.feed(GET + b"nonsense\r\n\r\n" + GET)
    assert [type(event) for event in events] == [Head, End, Malformed]
    assert parser.feed(GET) == []


@pytest.mark.parametrize("size", [1000, 65_536])
def test_a_head_larger_than_its_bound_is_refused_before_it_ends(size: int) -> None:
    events = read(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 66_000, size)
    assert [event.status for event in events if isinstance(event, Malformed)] == [431]
    assert read(b"GET /" + b"x" * 66_000, size)[-1] == events[-1]
    fitting = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 60_000 + b"\r\n\r\n"
    assert isinstance(read(fitting, size)[-1], End)


def test_more_fields_than_the_bound_are_refused() -> None:
    fields = b"".join(b"x-%d: y\r\n" % number for number in range(99))
    assert isinstance(read(b"GET / HTTP/1.1\r\n" + HOST + fields + b"\r\n", 10_000)[-1], End)
    assert read(b"GET / HTTP/1.1\r\n" + HOST + fields + b"one: more\r\n\r\n", 10_000)[-1][0] == 431


def test_framing_that_outweighs_its_body_is_refused() -> None:
    extension = b"1;" + b"e" * 60_000 + b"\r\nx\r\n"
    assert isinstance(read(CHUNKED + extension * 3, 4096)[-1], Malformed)
    trailer = CHUNKED + b"0\r\nTrailer: " + b"t" * 140_000
    assert isinstance(read(trailer, 4096)[-1], Malformed)
    one_by_one = CHUNKED + b"1\r\nx\r\n" * 100_000 + LAST_CHUNK
    assert isinstance(read(one_by_one, 65_536)[-1], End)


def test_the_begin_of_a_message_is_noticed() -> None:
    parser = RequestParser()
    assert parser.is_between_messages
    parser.feed(b"\r\n")
    assert parser.is_between_messages
    parser.feed(b"G")
    assert not parser.is_between_messages
    parser.feed(GET[1:] + b"GE")
    assert not parser.is_between_messages
    parser.feed(GET[2:])
    assert parser.is_between_messages


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.integers(1, 30))
def test_chunks_round_trip_as_request_and_as_answer(pieces: list[bytes], size: int) -> None:
    body = b"".join(map(chunk, pieces)) + LAST_CHUNK
    whole = b"".join(pieces)
    expected = ([Body(whole)] if whole else []) + [End()]
    assert read(CHUNKED + body, size)[1:] == expected
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    assert read_answer(answer, size)[1:] == expected


@given(st.binary(max_size=200), st.integers(1, 50))
def test_garbage_raises_nothing(data: bytes, size: int) -> None:
    read(data, size)
    read(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + data, size)


TOKEN = st.text(string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~", min_size=1, max_size=12)
VALUE = st.text(string.ascii_letters + string.digits + " ,;=/()", max_size=20).map(str.strip)


@given(st.lists(st.tuples(TOKEN.map(lambda name: "x-" + name.lower()), VALUE), max_size=10))
def test_heads_round_trip(fields: list[tuple[str, str]]) -> None:
    events = read(encode_head("GET / HTTP/1.1", [("host", "a"), *fields]), 16)
    assert events == [head("GET", "/", 0, *fields), End()]


@pytest.mark.parametrize(("name", "value"), [("x", "a\r\nset-cookie: b"), ("x", "a\nb"), ("x", "\0"), ("x: y", "a"), ("", "a")])
def test_a_field_that_would_break_out_of_its_line_is_not_sent(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(name))):
        encode_head("HTTP/1.1 200 OK", [(name, value)])


def read_answer(data: bytes, size: int) -> list[Event]:
    parser = ResponseParser()
    events = joined([event for at in range(0, len(data), size) for event in parser.feed(data[at : at + size])])
    parser.finish()
    return events


ANSWERS = {
    "a length": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", 200, b"ab", True),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", 200, b"ab", True),
    "until the connection ends": (b"HTTP/1.1 200 OK\r\n\r\nab", 200, b"ab", False),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nab", 200, b"ab", False),
    "nothing": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    "behind an interim answer": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nx: y\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nab",
        500,
        b"ab",
        True,
    ),
    "without a reason": (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, b"", True),
}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_answers_read_the_same_however_they_are_cut(name: str, size: int) -> None:
    data, status, body, keeps_alive = ANSWERS[name]
    events = read_answer(data, size)
    first = events[0]
    assert isinstance(first, StatusHead)
    assert (first.status, first.keeps_alive) == (status, keeps_alive)
    assert b"".join(event.data for event in events if isinstance(event, Body)) == body


BROKEN_ANSWERS = {
    "another protocol": b"SSH-2.0-OpenSSH_9\r\n",
    "a bad chunk size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\nzz\r\n",
    "a chunk longer than said": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nab",
    "length and chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    "bare LF": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nab",
    "a switch of protocols": b"HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nabc",
    "more than its length": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc",
    "a second answer": ANSWERS["a length"][0] * 2,
    "an endless head": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
    "an endless reason": b"HTTP/1.1 200 " + b"x" * 70_000,
    "too many fields": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 101 + b"\r\n",
}


@pytest.mark.parametrize("name", BROKEN_ANSWERS)
@pytest.mark.parametrize("size", [100, 1_000_000])
def test_an_answer_that_is_not_http_is_broken(name: str, size: int) -> None:
    with pytest.raises(BrokenAnswer):
        read_answer(BROKEN_ANSWERS[name], size)


@pytest.mark.parametrize("name", ["a length", "chunks"])
def test_an_answer_cut_short_is_never_whole(name: str) -> None:
    data = ANSWERS[name][0]
    for at in range(len(data)):
        parser = ResponseParser()
        parser.feed(data[:at])
        assert not parser.finish()
