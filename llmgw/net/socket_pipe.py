"""A connected TCP socket, read and written with no more system calls and turns of the loop than the bytes need.

trio's own stream passes through the scheduler on every call. A relay makes two calls an event, so here the system call
is tried first and the scheduler is asked only when the socket is not ready - and after a row of calls that never had to
wait, since a fast sender beside a fast reader would otherwise keep every other task from its turn.
"""

import os
import select
import socket

import trio

READ_BYTES = 65_536
_CALLS_PER_TURN = 16
_CLOSE_WAIT = 8  # TCP_CLOSE_WAIT of <linux/tcp.h>: the peer has sent its FIN
_CLOSE = 7


class WriteStalled(Exception):
    """The peer took nothing for as long as the caller allows."""


class SocketPipe:
    """Owns a socket. One task may read while another writes. Errors of a lost peer are OSError, as the kernel's."""

    __slots__ = ("_calls", "_fd", "_poll", "_stream")

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._fd = stream.socket.fileno()
        self._calls = 0
        self._poll: select.poll | None = None

    async def read(self) -> bytes:
        """Return at most 64 KiB as soon as there is any, b"" when the peer has ended its side."""
        while True:
            try:
                data = os.read(self._fd, READ_BYTES)
            except BlockingIOError:
                self._calls = 0
                await trio.lowlevel.wait_readable(self._fd)
                continue
            await self._take_turn()
            return data

    async def write_all(self, data: bytes, stall_s: float) -> None:
        """Send all of it; WriteStalled when the peer takes nothing for `stall_s` seconds."""
        try:
            sent = os.write(self._fd, data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            await self._write_rest(memoryview(data)[sent:], stall_s)
        else:
            await self._take_turn()

    async def _write_rest(self, rest: memoryview, stall_s: float) -> None:
        while rest:
            with trio.move_on_after(stall_s) as scope:
                await trio.lowlevel.wait_writable(self._fd)
            if scope.cancelled_caught:
                raise WriteStalled
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                continue

    async def _take_turn(self) -> None:
        self._calls += 1
        if self._calls >= _CALLS_PER_TURN:
            self._calls = 0
            await trio.lowlevel.checkpoint()

    def is_idle(self) -> bool:
        """Return whether the peer has neither sent anything nor hung up: what a pooled connection must be."""
        if self._stream.socket.fileno() < 0:
            return False
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self._fd, select.POLLIN | select.POLLRDHUP)
        return not self._poll.poll(0)

    def has_hung_up(self) -> bool:
        """Return whether the peer's FIN or reset has come, also when unread bytes lie before it."""
        try:
            info = self._stream.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        except OSError:
            return True
        return info[0] in (_CLOSE, _CLOSE_WAIT)

    def end_writing(self) -> None:
        """Tell the peer that nothing more comes."""
        try:
            self._stream.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def end_wait(self) -> None:
        """Have whoever waits for this socket raise trio.ClosedResourceError; the socket stays open."""
        trio.lowlevel.notify_closing(self._fd)

    def close(self) -> None:
        """Close the socket now; whoever waits on it is woken with an error."""
        self._stream.socket.close()
