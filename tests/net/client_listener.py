"""A listener over real sockets with a handler of the test's, on a clock that jumps when nothing moves."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from llmgw.net.http1_server import Http1Server
from llmgw.net.http_message import ClientFault, Handler, Pairs, Request, Responder
from llmgw.net.limits import ListenerLimits
from llmgw.net.listeners import open_listeners

FAULTS: list[ClientFault] = []


def on_fault(request: Request | None, fault: ClientFault) -> tuple[int, Pairs, bytes]:
    FAULTS.append(fault)
    return fault.status, [("content-type", "text/plain")], fault.reason.encode()


async def echo(request: Request, responder: Responder) -> None:
    body = await request.read_body(1_000_000)
    await responder.respond(200, [], f"{request.method} {request.path} {request.query} ".encode() + body)


class Wire:
    """The client's side: raw bytes, so that a test says exactly what is on the wire."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.unread = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def until(self, mark: bytes) -> bytes:
        """Read through `mark` and return all of it."""
        while mark not in self.unread:
            data = await self.stream.receive_some(65_536)
            assert data, f"the connection ended behind {self.unread!r}"
            self.unread += data
        head, _, self.unread = self.unread.partition(mark)
        return head + mark

    async def answer(self) -> tuple[int, str, bytes]:
        """Read one answer with a Content-Length: status, head, body."""
        head = (await self.until(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0] or 0)
        while len(self.unread) < length:
            self.unread += await self.stream.receive_some(65_536)
        body, self.unread = self.unread[:length], self.unread[length:]
        return int(head.split(" ")[1]), head, body

    async def rest(self) -> bytes:
        """Read to the end of the connection; a reset fails the test."""
        out, self.unread = self.unread, b""
        while data := await self.stream.receive_some(65_536):
            out += data
        return out


class Site:
    """A running server and the way to it."""

    def __init__(self, server: Http1Server, port: int, nursery: trio.Nursery) -> None:
        self.server = server
        self.port = port
        self.nursery = nursery
        self.served = trio.Event()

    async def connect(self) -> Wire:
        return Wire(await trio.open_tcp_stream("127.0.0.1", self.port))

    async def settle(self) -> None:
        """Let everything that can happen without time passing happen."""
        await trio.testing.wait_all_tasks_blocked(0.02)


@asynccontextmanager
async def serving(handler: Handler = echo, **limits: Any) -> AsyncIterator[Site]:
    FAULTS.clear()
    server = Http1Server(handler, ListenerLimits(**limits), on_fault)
    listeners = await open_listeners("127.0.0.1:0")
    async with trio.open_nursery() as nursery:
        site = Site(server, listeners[0].socket.getsockname()[1], nursery)

        async def serve(*, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
            await server.serve(listeners, task_status=task_status)
            site.served.set()

        await nursery.start(serve)
        yield site
        nursery.cancel_scope.cancel()


def run(main: Callable[[], Awaitable[None]], *, jumps: bool = True) -> None:
    """Run a test's main. Sockets on loopback move within a turn, so 20 ms without any mean that all wait for time."""
    clock = trio.testing.MockClock(autojump_threshold=0.02) if jumps else None
    trio.run(main, clock=clock)
