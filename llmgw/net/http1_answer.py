"""One answer in HTTP/1.1: head and first bytes in one send, each later piece in one send, and the end marked.

The head of a streamed answer is held until there is something to send behind it. Until then the answer can still
become another one (a refusal, a retry elsewhere), and the client is spared a packet.
"""

import email.utils
import http
import time
from collections.abc import Awaitable, Callable

from llmgw.net.http_message import Pairs
from llmgw.wire.http1 import LAST_CHUNK, Head, chunk, encode_head

# Joining a small body to the head saves a system call; joining a large one copies it.
_JOIN_BYTES = 65_536
_OURS = frozenset(("connection", "content-length", "transfer-encoding", "date", "keep-alive"))
_REASONS = {status.value: status.phrase for status in http.HTTPStatus}


class DateField:
    """The Date field's value, made once a second."""

    __slots__ = ("_second", "_text")

    def __init__(self) -> None:
        self._second = 0
        self._text = ""

    def __str__(self) -> str:
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._text = email.utils.formatdate(now, usegmt=True)
        return self._text


class Http1Answer:
    """A `Responder`. `send` sends bytes or does not return; `may_keep` tells, when the head is made, whether to keep."""

    def __init__(
        self, head: Head, date: DateField, send: Callable[[bytes], Awaitable[None]], may_keep: Callable[[], bool]
    ) -> None:
        self._version = head.version
        self._is_head_only = head.method == "HEAD"
        self._date = date
        self._send = send
        self._may_keep = may_keep
        self._held: bytes = b""
        self._has_body = True
        self._is_chunked = False
        self.started = False
        self.has_sent = False
        self.has_ended = False
        self.keeps_alive = False

    async def respond(self, status: int, headers: Pairs, body: bytes) -> None:
        """Send a whole answer."""
        self._begin()
        length = [] if _is_bodiless(status) else [("content-length", str(len(body)))]
        head = self._head(status, headers, length, can_keep=True)
        self.has_sent = self.has_ended = True
        if self._is_head_only or _is_bodiless(status):
            body = b""
        if len(body) <= _JOIN_BYTES:
            await self._send(head + body)
        else:
            await self._send(head)
            await self._send(body)

    async def start(self, status: int, headers: Pairs) -> None:
        """Commit to a streamed answer. To HTTP/1.0, whose only end is the connection's, it goes out unchunked."""
        self._begin()
        self._has_body = not (self._is_head_only or _is_bodiless(status))
        self._is_chunked = self._version != "1.0" and not _is_bodiless(status)
        framing = [("transfer-encoding", "chunked")] if self._is_chunked else []
        self._held = self._head(status, headers, framing, can_keep=self._is_chunked or not self._has_body)

    async def write(self, data: bytes) -> None:
        """Send one piece."""
        if not self.started or self.has_ended:
            raise RuntimeError("write() belongs between start() and end()")
        if not data or not self._has_body:
            return
        await self._send_with_head(chunk(data) if self._is_chunked else data)

    async def end(self) -> None:
        """Finish a streamed answer."""
        if not self.started or self.has_ended:
            raise RuntimeError("end() belongs once behind start()")
        self.has_ended = True
        last = LAST_CHUNK if self._has_body and self._is_chunked else b""
        if last or self._held:
            await self._send_with_head(last)

    def take_back(self) -> bool:
        """Forget an answer of which no byte has left; return whether that was so."""
        if self.has_sent:
            return False
        self.started = self.has_ended = False
        self._held = b""
        return True

    def _begin(self) -> None:
        if self.started:
            raise RuntimeError("the answer was started before")
        self.started = True

    async def _send_with_head(self, data: bytes) -> None:
        held, self._held = self._held, b""
        self.has_sent = True
        await self._send(held + data if held else data)

    def _head(self, status: int, headers: Pairs, framing: Pairs, *, can_keep: bool) -> bytes:
        wants_close = False
        fields: list[tuple[str, str]] = []
        for field in headers:
            name = field[0].lower()
            if name not in _OURS:
                fields.append(field)
            elif name == "connection" and field[1].lower() == "close":
                wants_close = True
        fields += framing
        fields.append(("date", str(self._date)))
        self.keeps_alive = can_keep and not wants_close and self._may_keep()
        if not self.keeps_alive:
            fields.append(("connection", "close"))
        elif self._version == "1.0":
            fields.append(("connection", "keep-alive"))
        return encode_head(f"HTTP/1.1 {status} {_REASONS.get(status, '')}", fields)


def _is_bodiless(status: int) -> bool:
    return status in (204, 304)
