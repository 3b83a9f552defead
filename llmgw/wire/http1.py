"""HTTP/1.1 without sockets: bytes in, events out, for the side that serves and the side that asks.

llhttp (through httptools) reads strictly, so what proxies and servers read differently - two lengths, a length beside
chunks, folded lines, a bare LF, a space before a colon - is refused and not guessed (request smuggling: RFC 9112
sections 6.3 and 11.2). This file adds what llhttp leaves open: bounds on the head, Host, the transfer codings we speak,
and that the error comes after the messages which were whole before it.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import httptools

MAX_HEAD_BYTES = 65_536
MAX_FIELDS = 100
# Chunk framing and trailers beside body bytes: 64 KiB, and for each byte of body as much as one-byte chunks need.
_OVERHEAD_BYTES = 65_536
_OVERHEAD_PER_BYTE = 16


class Head(NamedTuple):
    """A request's head. `length` is the body's announced length, None when it comes in chunks, 0 when there is none."""

    method: str
    target: str
    version: str
    fields: list[tuple[str, str]]
    length: int | None
    keeps_alive: bool
    expects_continue: bool


class StatusHead(NamedTuple):
    """An answer's head (never a 1xx one). `keeps_alive` as the sender says."""

    status: int
    fields: list[tuple[str, str]]
    keeps_alive: bool


class Body(NamedTuple):
    """Some bytes of a body, chunk framing removed."""

    data: bytes


class End(NamedTuple):
    """The message is whole."""


class Malformed(NamedTuple):
    """What follows cannot be read; `status` is what a request is answered with. Nothing comes after it."""

    status: int
    reason: str


Event = Head | StatusHead | Body | End | Malformed


class _Refused(Exception):
    """Raised inside a callback to stop the parser; carries the event."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.event = Malformed(status, reason)


_VERSIONS = "only HTTP/1.1 and HTTP/1.0 are spoken here"
_OTHER_VERSION = ("Invalid HTTP version", "PRI/Upgrade")
"""What llhttp says of a version it does not know, and of the preface of HTTP/2."""


class RequestParser:
    """Reads requests from one connection. After a Malformed event it returns nothing more."""

    def __init__(self, max_head_bytes: int = MAX_HEAD_BYTES, max_fields: int = MAX_FIELDS) -> None:
        self._max_head_bytes = max_head_bytes
        self._max_fields = max_fields
        self._parser = httptools.HttpRequestParser(self)
        self._events: list[Event] = []
        self._is_dead = False
        self._is_muted = False
        self._unread_length: int | None = 0
        self._target: list[bytes] = []
        self._fields: list[tuple[str, str]] = []
        self._head_bytes = 0
        self._fed_in_head = 0
        self._is_in_head = True
        self._has_begun = False
        self._body_bytes = 0
        self._fed_in_body = 0

    @property
    def is_between_messages(self) -> bool:
        """Whether no byte of another message has been read."""
        return not self._has_begun

    def feed(self, data: bytes) -> list[Event]:
        """Return what these bytes complete. A fault is the last event, after all that was whole before it."""
        if self._is_dead or not data:
            return []
        events: list[Event] = []
        self._events = events
        if self._is_in_head:
            self._fed_in_head += len(data)
        else:
            self._fed_in_body += len(data)
        try:
            self._feed(data)
            self._check_bounds()
        except _Refused as refused:
            self._die(refused.event)
        except httptools.HttpParserCallbackError as error:
            refused = error.__context__
            if not isinstance(refused, _Refused):
                raise
            self._die(refused.event)
        except httptools.HttpParserError as error:
            if any(word in str(error) for word in _OTHER_VERSION):
                self._die(Malformed(505, _VERSIONS))
            else:
                self._die(Malformed(400, f"the request cannot be read: {error}"))
        return events

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                self._decline_upgrade()

    def _decline_upgrade(self) -> None:
        """Go on as if no upgrade had been offered, which HTTP allows.

        llhttp stops after the head of such a request and would read its body, if it has one, as the next request. A
        new parser is brought to where a body begins by a head of the same framing, whose own events are muted.
        """
        self._parser = httptools.HttpRequestParser(self)
        length = self._unread_length
        if length == 0:
            return
        framing = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
        self._is_muted = True
        self._parser.feed_data(b"POST / HTTP/1.1\r\nhost: -\r\n" + framing + b"\r\n\r\n")
        self._is_muted = False
        self._unread_length = 0

    def _die(self, event: Malformed) -> None:
        self._is_dead = True
        self._events.append(event)

    def _check_bounds(self) -> None:
        if self._is_in_head:
            if self._fed_in_head > self._max_head_bytes:
                raise self._too_large()
        elif self._fed_in_body > self._body_bytes * (1 + _OVERHEAD_PER_BYTE) + _OVERHEAD_BYTES:
            raise _Refused(400, "the body's chunk framing outweighs the body")

    # What llhttp calls.

    def on_message_begin(self) -> None:
        """Start a message."""
        if self._is_muted:
            return
        self._has_begun = True
        self._target = []
        self._fields = []
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the request target."""
        if self._is_muted:
            return
        self._target.append(url)
        self._head_bytes += len(url)
        if self._head_bytes > self._max_head_bytes:
            raise self._too_large()

    def on_header(self, name: bytes, value: bytes | None) -> None:
        """Take one field. Those after the body (trailers) are counted and dropped."""
        if not self._is_in_head:
            return
        value = value or b""
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > self._max_head_bytes:
            raise self._too_large()
        if len(self._fields) >= self._max_fields:
            raise _Refused(431, f"the request has more than {self._max_fields} header fields")
        self._fields.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def _too_large(self) -> _Refused:
        return _Refused(431, f"the request's head is larger than {self._max_head_bytes} bytes")

    def on_headers_complete(self) -> None:
        """Judge the head as a whole."""
        if self._is_muted:
            return
        version = self._parser.get_http_version()
        method = self._parser.get_method().decode("latin-1")
        length, expects_continue = _judge(method, version, self._fields)
        target = b"".join(self._target).decode("latin-1")
        keeps_alive = self._parser.should_keep_alive()
        self._events.append(Head(method, target, version, self._fields, length, keeps_alive, expects_continue))
        self._is_in_head = False
        self._fed_in_body = self._body_bytes = 0
        self._unread_length = length if self._parser.should_upgrade() else 0

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body."""
        self._body_bytes += len(data)
        self._events.append(Body(data))

    def on_message_complete(self) -> None:
        """Finish the message; what follows in the same bytes belongs to the next."""
        if self._unread_length != 0 and not self._is_muted and self._parser.should_upgrade():
            return
        self._events.append(End())
        self._is_in_head = True
        self._has_begun = False
        self._fed_in_head = 0


def _judge(method: str, version: str, fields: list[tuple[str, str]]) -> tuple[int | None, bool]:
    """Return a body's length and whether the client waits for 100 Continue. Raises _Refused."""
    if version not in ("1.1", "1.0"):
        raise _Refused(505, _VERSIONS)
    if method == "CONNECT":
        raise _Refused(400, "CONNECT is for proxies, and this is none")
    length: int | None = 0
    hosts = 0
    expects = False
    for name, value in fields:
        if name == "host":
            hosts += 1
        elif name == "content-length":
            length = int(value)
        elif name == "transfer-encoding":
            if version == "1.0":
                raise _Refused(400, "transfer-encoding does not exist in HTTP/1.0")
            if value.strip().lower() != "chunked" or length is None:
                raise _Refused(501, "the only transfer-encoding spoken here is chunked")
            length = None
        elif name == "expect":
            if value.strip().lower() != "100-continue":
                raise _Refused(417, "the only expectation known here is 100-continue")
            expects = version == "1.1"
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        raise _Refused(400, "a request has exactly one Host field")
    return length, expects


class BrokenAnswer(Exception):
    """An engine's answer that is not HTTP as it must be."""


class ResponseParser:
    """Reads one answer. `feed` returns events; `is_whole` tells whether it ended as its framing says."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._events: list[Event] = []
        self._fields: list[tuple[str, str]] = []
        self._head_bytes = 0
        self._fed_in_head = 0
        self._is_interim = False
        self._has_head = False
        self.is_whole = False
        self.is_framed = False

    def feed(self, data: bytes) -> list[Event]:
        """Return what these bytes complete. Raises BrokenAnswer, also for bytes after the end of the answer."""
        if self.is_whole:
            raise BrokenAnswer("more bytes came than its answer has")
        events: list[Event] = []
        self._events = events
        if not self._has_head:
            self._fed_in_head += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise BrokenAnswer("it switched protocols") from None
        except httptools.HttpParserCallbackError as error:
            raise BrokenAnswer(str(error.__context__)) from None
        except httptools.HttpParserError as error:
            raise BrokenAnswer(f"its answer cannot be read: {error}") from None
        if not self._has_head and self._fed_in_head > MAX_HEAD_BYTES:
            raise BrokenAnswer(f"its answer's head is larger than {MAX_HEAD_BYTES} bytes")
        return events

    def finish(self) -> bool:
        """Take the end of the connection; return whether it ends the answer rightly (no framing: it does)."""
        if self._has_head and not self.is_framed:
            self.is_whole = True
        return self.is_whole

    # What llhttp calls.

    def on_message_begin(self) -> None:
        """Start an answer, or the one after an interim (1xx) answer."""
        if self.is_whole:
            raise BrokenAnswer("more bytes came than its answer has")
        self._fields = []

    def on_header(self, name: bytes, value: bytes | None) -> None:
        """Take one field; trailers are dropped."""
        if self._has_head:
            return
        value = value or b""
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > MAX_HEAD_BYTES or len(self._fields) >= MAX_FIELDS:
            raise BrokenAnswer(f"its answer's head is larger than {MAX_HEAD_BYTES} bytes or {MAX_FIELDS} fields")
        self._fields.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        """Pass the head on, unless it is an interim one."""
        status = self._parser.get_status_code()
        self._is_interim = 100 <= status < 200
        if self._is_interim:
            return
        names = {name for name, _ in self._fields}
        has_no_body = status in (204, 304)
        self.is_framed = has_no_body or "content-length" in names or "transfer-encoding" in names
        self._has_head = True
        self._events.append(StatusHead(status, self._fields, self._parser.should_keep_alive()))

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body."""
        self._events.append(Body(data))

    def on_message_complete(self) -> None:
        """Finish the answer, unless it was an interim one."""
        if not self._is_interim:
            self.is_whole = True
            self._events.append(End())


def chunk(data: bytes) -> bytes:
    """Return data as one chunk of a chunked body. Empty data would end the body, so it is nothing."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


LAST_CHUNK = b"0\r\n\r\n"


def encode_head(start_line: str, fields: Sequence[tuple[str, str]]) -> bytes:
    """Return a head's bytes. Raises ValueError for a field that would break out of its line."""
    head = start_line
    for name, value in fields:
        head += f"\r\n{name}: {value}"
    breaks = len(fields)
    # Looked at as a whole: a break more than there are fields is one inside a field.
    if head.count("\r") != breaks or head.count("\n") != breaks or "\0" in head or not _are_tokens(fields):
        raise ValueError(f"header field {_bad_one(fields)!r} cannot be sent: its name or value holds a character it may not")
    return (head + "\r\n\r\n").encode("latin-1", "replace")


def _are_tokens(fields: Sequence[tuple[str, str]]) -> bool:
    return all(map(_is_token, [name for name, _ in fields]))


def _bad_one(fields: Sequence[tuple[str, str]]) -> str:
    """Return the name of the first field that may not be sent, "" when it is the start line that is wrong."""
    bad = (name for name, value in fields if not _is_token(name) or not _BREAKS.isdisjoint(value))
    return next(bad, "")


_NOT_TOKEN = frozenset(' \t\r\n\0:()<>@,;\\"/[]?={}')
_BREAKS = frozenset("\r\n\0")


@lru_cache(maxsize=256)
def _is_token(name: str) -> bool:
    """Return whether a field may have this name. Names are few, so each is looked at about once."""
    return bool(name) and name.isascii() and _NOT_TOKEN.isdisjoint(name)
