"""Requests to engines over kept HTTP/1.1 connections, with a deadline for each phase.

Two rules are easy to get wrong. An engine may close a kept connection in the moment a request is sent on it: then, and
only when no byte of an answer came, the request goes out once more on a fresh connection. And a caller that leaves early
closes the socket at once, since the hang-up is the only way to tell an engine to stop computing (S-20); a connection
returns to the pool after a whole answer and never else.

The first-byte deadline runs until the first byte of the body: engines send their head long before a prefill ends.
"""

from collections.abc import AsyncGenerator, Sequence
from types import TracebackType
from typing import NamedTuple, Self

import trio

from llmgw.net.deadlines import Deadlines
from llmgw.net.http_message import Headers
from llmgw.net.read_watch import ReadLate, ReadWatch
from llmgw.net.socket_pipe import SocketPipe, WriteStalled
from llmgw.net.upstream_errors import ConnectFailed, FirstByteTimeout, IdleTimeout, UpstreamBroken
from llmgw.wire.http1 import Body, BrokenAnswer, End, Event, ResponseParser, StatusHead, encode_head

# llama.cpp and uvicorn close a silent connection after 5 s; not to race them, ours are kept for less.
KEEP_IDLE_S = 4.0
MAX_IDLE_PER_ENDPOINT = 256


class Endpoint(NamedTuple):
    """Where an engine listens."""

    host: str
    port: int


class _Kept(NamedTuple):
    pipe: SocketPipe
    until: float


class EngineAnswer:
    """One engine's answer. Its body is read once, by `chunks` or `read`."""

    def __init__(self, pipe: SocketPipe, deadlines: Deadlines, watch: ReadWatch) -> None:
        self._pipe = pipe
        self._watch = watch
        self._deadlines = deadlines
        self._first_byte_by = trio.current_time() + deadlines.first_byte_s
        self._parser = ResponseParser()
        self._ahead: list[Event] = []
        self._has_body_bytes = False
        self.has_any_bytes = False
        self._keeps_alive = False
        self.is_reusable = False
        self.status = 0
        self.headers = Headers()

    @property
    def is_whole(self) -> bool:
        """Whether all of it was received, as its framing says."""
        return self._parser.is_whole

    async def ask(self, message: bytes) -> None:
        """Send a request and wait for status and headers. Raises UpstreamError."""
        first_byte_s = self._deadlines.first_byte_s
        try:
            await self._pipe.write_all(message, first_byte_s)
        except WriteStalled:
            raise FirstByteTimeout(f"the engine took no more of the request for {first_byte_s:g} s") from None
        except OSError:
            pass  # An engine may refuse and close before it has read all; its answer is then still there to read.
        await self._read_head()

    async def _read_head(self) -> None:
        while not self.status:
            events = await self._receive()
            for at, event in enumerate(events):
                if isinstance(event, StatusHead):
                    self.status, self.headers = event.status, Headers(event.fields)
                    self._keeps_alive = event.keeps_alive
                    self._ahead = events[at + 1 :]
                    break
        encoding = self.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise self._broken(f"the engine's answer is encoded as {encoding}, which it was not asked for")

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it arrives: what one read brought, joined. Raises UpstreamError when it breaks off."""
        events, self._ahead = self._ahead, []
        while True:
            piece = self._body_of(events)
            if piece:
                yield piece
            if self._has_ended(events):
                return
            events = await self._receive()

    async def read(self, limit_bytes: int) -> bytes:
        """Return the whole body. Raises UpstreamBroken when it is larger than the limit."""
        pieces: list[bytes] = []
        size = 0
        events, self._ahead = self._ahead, []
        while True:
            piece = self._body_of(events)
            size += len(piece)
            if size > limit_bytes:
                raise self._broken(f"the engine's answer is larger than {limit_bytes} bytes")
            pieces.append(piece)
            if self._has_ended(events):
                return pieces[0] if len(pieces) == 1 else b"".join(pieces)
            events = await self._receive()

    def _body_of(self, events: list[Event]) -> bytes:
        """Return the bytes of the body among events, joined."""
        pieces = [event.data for event in events if isinstance(event, Body)]
        if not pieces:
            return b""
        self._has_body_bytes = True
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _has_ended(self, events: list[Event]) -> bool:
        """Return whether the answer is whole after these events, the last of it, and judge the connection by them."""
        if not self._parser.is_whole:
            return False
        self.is_reusable = self._keeps_alive and bool(events) and isinstance(events[-1], End)
        return True

    async def _receive(self) -> list[Event]:
        """Return what the next read completes. At a right end of the connection: nothing, and the answer is whole."""
        first = not self._has_body_bytes
        deadline = self._first_byte_by if first else trio.current_time() + self._deadlines.idle_s
        try:
            data = await self._watch.read(self._pipe, deadline)
        except OSError:
            data = b""
        except ReadLate:
            if first:
                raise FirstByteTimeout(f"the engine sent nothing for {self._deadlines.first_byte_s:g} s") from None
            raise IdleTimeout(f"the engine fell silent for {self._deadlines.idle_s:g} s") from None
        if not data:
            if self._parser.finish():
                return []
            ended = "in the middle of its answer" if self._has_body_bytes else "before it answered"
            raise self._broken(f"the engine closed the connection {ended}")
        self.has_any_bytes = True
        try:
            return self._parser.feed(data)
        except BrokenAnswer as broken:
            raise self._broken(f"the engine did not answer in proper HTTP: {broken}") from None

    def _broken(self, reason: str) -> UpstreamBroken:
        return UpstreamBroken(reason, before_first_byte=not self._has_body_bytes)


class EnginePool:
    """Connections to engines, kept by endpoint. Closing it closes those that are idle."""

    def __init__(self) -> None:
        self._kept: dict[Endpoint, list[_Kept]] = {}
        self.watch = ReadWatch()

    async def __aenter__(self) -> Self:
        await self.watch.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for endpoint in list(self._kept):
            self.forget(endpoint)
        await self.watch.__aexit__(kind, error, trace)

    def forget(self, endpoint: Endpoint) -> None:
        """Close the idle connections to an endpoint that is gone."""
        for kept in self._kept.pop(endpoint, ()):
            kept.pipe.close()

    def request(
        self,
        endpoint: Endpoint,
        method: str,
        path: str,
        headers: Sequence[tuple[str, str]],
        body: bytes,
        deadlines: Deadlines,
    ) -> "EngineRequest":
        """Return a block: entered, the request is sent and its answer's head is there. Raises UpstreamError, also from
        the answer.

        Host, Content-Length, and Accept-Encoding are added. An early way out of the block closes the connection.
        """
        return EngineRequest(self, endpoint, _request_head(endpoint, method, path, headers, body) + body, deadlines)

    def take(self, endpoint: Endpoint) -> SocketPipe | None:
        """Return a kept connection that is still good, the one used last first: the others may then grow old."""
        self._drop_old()
        kept = self._kept.get(endpoint)
        while kept:
            pipe = kept.pop().pipe
            if pipe.is_idle():
                return pipe
            pipe.close()
        return None

    def give_back(self, endpoint: Endpoint, pipe: SocketPipe, answer: EngineAnswer | None) -> None:
        """Keep the connection of a whole answer; close any other."""
        kept = self._kept.setdefault(endpoint, [])
        if answer is not None and answer.is_reusable and len(kept) < MAX_IDLE_PER_ENDPOINT:
            kept.append(_Kept(pipe, trio.current_time() + KEEP_IDLE_S))
        else:
            pipe.close()

    def _drop_old(self) -> None:
        now = trio.current_time()
        for endpoint, kept in list(self._kept.items()):
            while kept and kept[0].until < now:
                kept.pop(0).pipe.close()
            if not kept:
                del self._kept[endpoint]


class EngineRequest:
    """One request as a block. A class, since a generator behind a decorator costs more than choosing the connection."""

    __slots__ = ("_answer", "_deadlines", "_endpoint", "_message", "_pipe", "_pool")

    def __init__(self, pool: EnginePool, endpoint: Endpoint, message: bytes, deadlines: Deadlines) -> None:
        self._pool = pool
        self._endpoint = endpoint
        self._message = message
        self._deadlines = deadlines
        self._pipe: SocketPipe | None = None
        self._answer: EngineAnswer | None = None

    async def __aenter__(self) -> EngineAnswer:
        try:
            return await self._ask_kept() or await self._ask_fresh()
        except BaseException:
            self._let_go()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._let_go()

    async def _ask_kept(self) -> EngineAnswer | None:
        """Ask on a kept connection; None when there is none, or its engine closed it in that moment."""
        pipe = self._pipe = self._pool.take(self._endpoint)
        if pipe is None:
            return None
        answer = self._answer = EngineAnswer(pipe, self._deadlines, self._pool.watch)
        try:
            await answer.ask(self._message)
        except UpstreamBroken:
            if answer.has_any_bytes:
                raise
            pipe.close()
            self._pipe = self._answer = None
        return self._answer

    async def _ask_fresh(self) -> EngineAnswer:
        pipe = self._pipe = await _connect(self._endpoint, self._deadlines.connect_s)
        answer = self._answer = EngineAnswer(pipe, self._deadlines, self._pool.watch)
        await answer.ask(self._message)
        return answer

    def _let_go(self) -> None:
        if self._pipe is not None:
            self._pool.give_back(self._endpoint, self._pipe, self._answer)


def _request_head(
    endpoint: Endpoint, method: str, path: str, headers: Sequence[tuple[str, str]], body: bytes
) -> bytes:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    ours = [("host", f"{host}:{endpoint.port}"), ("accept-encoding", "identity")]
    if body or method not in ("GET", "HEAD"):
        ours.append(("content-length", str(len(body))))
    return encode_head(f"{method} {path} HTTP/1.1", [*ours, *headers])


async def _connect(endpoint: Endpoint, connect_s: float) -> SocketPipe:
    stream: trio.SocketStream | None = None
    with trio.move_on_after(connect_s):
        try:
            stream = await trio.open_tcp_stream(endpoint.host, endpoint.port)
        except OSError:
            raise ConnectFailed("the engine does not accept connections") from None
    if stream is None:
        raise ConnectFailed(f"the engine did not accept a connection within {connect_s:g} s")
    return SocketPipe(stream)
