"""A TCP proxy that does to a connection what networks and dying programs do to it, over real sockets.

Give a client its port in place of the server's. What it does is set while it runs and holds for connections that are
open as well as for those to come.
"""

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import msgspec
import trio

_READ_BYTES = 65_536


class Toxics(msgspec.Struct, frozen=True):
    """What happens to the bytes that come from upstream; the defaults pass them on.

    `delay_s` before each piece is passed on. `piece_bytes`: at most so many bytes at a time, each in a send of its own.
    `cut_after_bytes`: the client's connection is reset behind so many bytes of the answer. `is_black_hole`: nothing is
    passed on in either direction, and nobody is told. `is_refusing`: a new connection is reset at once.
    """

    delay_s: float = 0.0
    piece_bytes: int = _READ_BYTES
    cut_after_bytes: int | None = None
    is_black_hole: bool = False
    is_refusing: bool = False


class ToxicProxy:
    """Listens on a loopback port and connects each client to the upstream port on loopback."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._toxics = Toxics()
        self._changed = trio.Event()
        self._streams: set[trio.SocketStream] = set()
        self.port = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run the proxy for the length of the block."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._connect, listeners)
            yield self
            nursery.cancel_scope.cancel()

    def set(self, toxics: Toxics) -> None:
        """Change what happens from now on."""
        self._toxics = toxics
        self._changed.set()
        self._changed = trio.Event()

    def cut_all(self) -> None:
        """Reset every open connection, on both sides."""
        for stream in list(self._streams):
            _reset(stream)

    async def _connect(self, client: trio.SocketStream) -> None:
        if self._toxics.is_refusing:
            _reset(client)
            return
        upstream = await trio.open_tcp_stream("127.0.0.1", self._upstream_port)
        self._streams |= {client, upstream}
        try:
            async with client, upstream, trio.open_nursery() as nursery:
                nursery.start_soon(self._pass, client, upstream, False)
                await self._pass(upstream, client, True)
                nursery.cancel_scope.cancel()
        finally:
            self._streams -= {client, upstream}

    async def _pass(self, source: trio.SocketStream, sink: trio.SocketStream, is_answer: bool) -> None:
        passed = 0
        try:
            while data := await source.receive_some(_READ_BYTES):
                while self._toxics.is_black_hole:
                    await self._changed.wait()
                if not is_answer:
                    await sink.send_all(data)
                    continue
                room = self._room(passed)
                passed += len(data)
                await self._pass_slowly(data[:room], sink)
                if room is not None and len(data) >= room:
                    _reset(sink)
                    return
            await sink.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            return

    def _room(self, passed: int) -> int | None:
        cut = self._toxics.cut_after_bytes
        return None if cut is None else max(0, cut - passed)

    async def _pass_slowly(self, data: bytes, sink: trio.SocketStream) -> None:
        while data:
            piece_bytes = self._toxics.piece_bytes
            if self._toxics.delay_s:
                await trio.sleep(self._toxics.delay_s)
            await sink.send_all(data[:piece_bytes])
            data = data[piece_bytes:]


def _reset(stream: trio.SocketStream) -> None:
    """Close a socket so that the other side sees a reset and not an orderly end."""
    try:
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        return
    stream.socket.close()
