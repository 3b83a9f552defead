"""Accepts clients and keeps count of them: how many in all, how many from one address (X-31), and how they end.

Beyond a bound a connection is closed at accept, before it costs anything. Stopping has three steps, so that a running
answer is not cut by an update: nothing new is accepted and idle connections close; what runs may finish for a grace; the
rest is cancelled.
"""

import errno
import socket
from collections.abc import Sequence

import trio

from llmgw.net.http1_answer import DateField
from llmgw.net.http1_connection import Http1Connection
from llmgw.net.http_message import ClientFault, FaultAnswer, Handler
from llmgw.net.limits import ListenerLimits, is_exempt, plain_address
from llmgw.net.socket_pipe import SocketPipe

_OUT_OF_DESCRIPTORS = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_BREATHER_S = 0.1
_INFLATING_THREADS = 2


class Http1Server:
    """Serves HTTP/1.1 on listeners. One `serve` per instance."""

    def __init__(self, handler: Handler, limits: ListenerLimits, on_fault: FaultAnswer) -> None:
        self._handler = handler
        self._limits = limits
        self._on_fault = on_fault
        self._trusted = limits.trusted_networks()
        self._per_address: dict[str, int] = {}
        self._open: set[Http1Connection] = set()
        self._date = DateField()
        self._is_stopping = False
        self._accepting = trio.CancelScope()
        self._serving = trio.CancelScope()
        self._closed_one = trio.lowlevel.ParkingLot()
        self.refused_total = 0

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._open)

    async def serve(
        self,
        listeners: Sequence[trio.SocketListener],
        *,
        task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled, or until stopped and the last connection has ended. Closes the listeners."""
        inflating = trio.CapacityLimiter(_INFLATING_THREADS)
        with self._serving:
            async with trio.open_nursery() as connections:
                with self._accepting:
                    async with trio.open_nursery() as accepting:
                        for listener in listeners:
                            accepting.start_soon(self._accept, listener, connections, inflating)
                        task_status.started()

    async def _accept(
        self, listener: trio.SocketListener, connections: trio.Nursery, inflating: trio.CapacityLimiter
    ) -> None:
        try:
            while True:
                try:
                    stream = await listener.accept()
                except OSError as error:
                    if error.errno not in _OUT_OF_DESCRIPTORS:
                        raise
                    await trio.sleep(_BREATHER_S)
                    continue
                self._take(stream, connections, inflating)
        finally:
            listener.socket.close()

    def _take(self, stream: trio.SocketStream, connections: trio.Nursery, inflating: trio.CapacityLimiter) -> None:
        address = _peer(stream)
        if not self._has_room(address):
            self.refused_total += 1
            stream.socket.close()
            return
        _notice_vanished_peer(stream, self._limits.write_stall_s)
        connection = Http1Connection(
            SocketPipe(stream), address, self._handler, self._limits, self._on_fault, self._date, inflating
        )
        self._open.add(connection)
        self._per_address[address] = self._per_address.get(address, 0) + 1
        connections.start_soon(self._run, connection, address)

    def _has_room(self, address: str) -> bool:
        if not address or len(self._open) >= self._limits.max_connections:
            return False
        if self._per_address.get(address, 0) < self._limits.per_address:
            return True
        return is_exempt(address, self._trusted)

    async def _run(self, connection: Http1Connection, address: str) -> None:
        try:
            await connection.run()
        except Exception as crash:  # the supervisor of a connection: the others go on, and the fault is told
            fault = ClientFault(500, "the server failed on a connection")
            fault.__cause__ = crash
            self._on_fault(None, fault)
        finally:
            self._open.discard(connection)
            left = self._per_address[address] - 1
            if left:
                self._per_address[address] = left
            else:
                del self._per_address[address]
            self._closed_one.unpark_all()

    def stop_accepting(self) -> None:
        """Accept nothing more; close idle connections, and each of the others after the answer it is giving."""
        self._is_stopping = True
        self._accepting.cancel()
        for connection in self._open:
            connection.retire()

    async def drain(self, grace_s: float) -> int:
        """Stop accepting, let running answers finish for `grace_s` seconds, cut the rest; return how many were cut."""
        self.stop_accepting()
        with trio.move_on_after(grace_s):
            while self._open:
                await self._closed_one.park()
        cut = sum(connection.is_answering for connection in self._open)
        self._serving.cancel()
        return cut


def _notice_vanished_peer(stream: trio.SocketStream, after_s: float) -> None:
    """Have the kernel report a peer that vanished without a FIN: bytes not acknowledged, or probes not answered."""
    options = (
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, round(after_s / 2))),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, round(after_s / 6))),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(after_s * 1000)),
    )
    try:
        for level, option, value in options:
            stream.socket.setsockopt(level, option, value)
    except OSError:
        return  # it is gone already, which the first read tells


def _peer(stream: trio.SocketStream) -> str:
    """Return the peer's address, "" when it is gone already."""
    try:
        return plain_address(stream.socket.getpeername()[0])
    except OSError:
        return ""
