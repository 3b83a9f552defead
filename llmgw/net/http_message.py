"""What a handler sees of HTTP: one request, one answer, whatever version of the protocol carried them.

A handler is never told by a return value that its client left. Its cancel scope ends: a handler that waits for a slot,
for an engine or for room in the client's socket is interrupted in the same way, so a slot, a reservation or an engine
connection held in a `with` is given back in every phase (S-20, F-1). `Request.client_gone` then says why.
"""

import re
import zlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol

import trio

Pairs = Sequence[tuple[str, str]]
"""Header names and values, in order."""


class ClientFault(Exception):
    """What a client did wrong on the wire: the status it is answered with, and the reason in words.

    `must_close` says that the connection cannot be used afterwards, since where the next request begins is unknown.
    A crashed handler is told to `on_fault` as a ClientFault of status 500 whose `__cause__` is what it raised.
    """

    def __init__(self, status: int, reason: str, *, must_close: bool = True) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.must_close = must_close


class ClientLeft(Exception):
    """A write to a client that is gone, made where cancellation was shielded."""


class Headers:
    """A message's fields in order, names in lower case, values as text (bytes above 127 read as Latin-1)."""

    __slots__ = ("_first", "_pairs")

    def __init__(self, pairs: Sequence[tuple[str, str]] = ()) -> None:
        self._pairs = pairs
        self._first = dict(reversed(pairs))

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the first value of a field (lower-case name), or the default."""
        return self._first.get(name, default)

    def get_all(self, name: str) -> list[str]:
        """Return every value of a field (lower-case name), in order."""
        if name not in self._first:
            return []
        return [value for key, value in self._pairs if key == name]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __repr__(self) -> str:
        return f"Headers({[name for name, _ in self._pairs]})"


class BodySource(Protocol):
    """Where a request's body comes from; given by the protocol that carries it."""

    @property
    def declared_bytes(self) -> int | None:
        """The length the client announced, 0 for no body, None when it announced none (chunked)."""
        ...

    @property
    def inflating(self) -> trio.CapacityLimiter:
        """Bounds the threads in which bodies are inflated, so that they cannot take every thread there is."""
        ...

    async def receive(self) -> bytes:
        """Return the next bytes of the body, b"" at its end. Raises ClientFault 408 (stalled), 400 (broken)."""
        ...


class Request:
    """One request as it arrived. `target` is what the client wrote; `path` and `query` are its parts, not unquoted."""

    __slots__ = ("_body", "client", "client_gone", "headers", "http_version", "method", "path", "query", "target")

    def __init__(
        self, method: str, target: str, headers: Headers, body: BodySource, *, http_version: str, client: str
    ) -> None:
        self.method = method
        self.target = target
        self.path, self.query = split_target(target)
        self.headers = headers
        self.http_version = http_version
        self.client = client
        self.client_gone = False
        self._body = body

    async def read_body(self, limit_bytes: int) -> bytes:
        """Return the whole body, inflated when it is gzip. The bound holds for what arrives and what it inflates to.

        Raises ClientFault: 413 over the bound (as early as that is known), 408 stalled, 400 broken, 415 when it is
        encoded in a way other than gzip.
        """
        encoding = (self.headers.get("content-encoding") or "identity").strip().lower()
        if encoding not in ("identity", "gzip", "x-gzip"):
            raise ClientFault(415, f"content-encoding {encoding!r} is not supported; send the body plain or as gzip")
        body = await self._read_plain(limit_bytes)
        if encoding == "identity" or not body:
            return body
        return await trio.to_thread.run_sync(inflate, body, limit_bytes, limiter=self._body.inflating)

    async def _read_plain(self, limit_bytes: int) -> bytes:
        declared = self._body.declared_bytes
        if declared is not None and declared > limit_bytes:
            raise ClientFault(413, f"the body has {declared} bytes; at most {limit_bytes} are accepted")
        pieces: list[bytes] = []
        size = 0
        while piece := await self._body.receive():
            size += len(piece)
            if size > limit_bytes:
                raise ClientFault(413, f"the body is larger than the {limit_bytes} bytes that are accepted")
            pieces.append(piece)
            if size == declared:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class Responder(Protocol):
    """Where a handler puts its answer: whole with `respond`, or `start`, any number of `write`, `end`.

    The request's body is read before: what nobody has read by then is dropped. A header with a line break in it raises
    ValueError. A client that left cancels the caller; see ClientLeft.
    """

    @property
    def started(self) -> bool:
        """Whether a status was committed; afterwards only `write` and `end` are left."""
        ...

    async def respond(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send a whole answer. Content-Length, Date and Connection are added."""
        ...

    async def start(self, status: int, headers: Pairs) -> None:
        """Commit the status and headers of a streamed answer. They leave together with the first `write` or `end`."""
        ...

    async def write(self, data: bytes) -> None:
        """Send one piece of a streamed answer, in one system call where the client's socket has room (S-21)."""
        ...

    async def end(self) -> None:
        """Finish a streamed answer. An answer never ended is cut, so that no client takes it for whole."""
        ...


Handler = Callable[[Request, Responder], Awaitable[None]]
FaultAnswer = Callable[[Request | None, ClientFault], tuple[int, Pairs, bytes]]
"""Renders a fault as status, headers and body; the request is None where none could be read."""

_ABSOLUTE = re.compile(r"^https?://[^/?#]*", re.IGNORECASE)


def split_target(target: str) -> tuple[str, str]:
    """Return path and query of a request target in origin or absolute form (RFC 9112 section 3.2)."""
    rest = _ABSOLUTE.sub("", target, count=1)
    path, _, query = rest.partition("?")
    return path or "/", query


def inflate(body: bytes, limit_bytes: int) -> bytes:
    """Return the content of gzip data, all members of it, at most `limit_bytes`. Raises ClientFault 400, 413."""
    out: list[bytes] = []
    left = limit_bytes
    try:
        while body:
            member = zlib.decompressobj(16 + zlib.MAX_WBITS)
            piece = member.decompress(body, left + 1)
            left -= len(piece)
            if left < 0:
                raise ClientFault(413, f"the body inflates to more than the {limit_bytes} bytes that are accepted")
            if not member.eof:
                raise ClientFault(400, "the gzip body ends before its end", must_close=False)
            out.append(piece)
            body = member.unused_data
    except zlib.error as error:
        raise ClientFault(400, f"the body is not gzip: {error}", must_close=False) from None
    return b"".join(out)
