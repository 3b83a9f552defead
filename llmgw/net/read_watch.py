"""Deadlines of many reads, kept by one task.

A cancel scope around each read is the plain way, and costs as much as all else that is done for an event of a stream.
Reads mostly end long before their deadline, so here a read only notes its deadline in a dict, and one task sleeps until
the earliest it was told of. When it wakes it ends the reads that are late and looks when the next one will be.
"""

import math
from types import TracebackType
from typing import Self

import trio

from llmgw.net.socket_pipe import SocketPipe


class ReadLate(Exception):
    """Nothing came before the deadline."""


class ReadWatch:
    """Watches reads while its block lasts. Deadlines are of trio's clock."""

    def __init__(self) -> None:
        self._due: dict[SocketPipe, float] = {}
        self._late: set[SocketPipe] = set()
        self._sleep = trio.CancelScope()
        self._next = math.inf
        self._opening = trio.open_nursery()
        self._nursery: trio.Nursery | None = None

    async def __aenter__(self) -> Self:
        self._nursery = await self._opening.__aenter__()
        self._nursery.start_soon(self._watch)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop. The block's own exception passes by the nursery, which would put it into a group."""
        assert self._nursery is not None
        self._nursery.cancel_scope.cancel()
        await self._opening.__aexit__(None, None, None)

    async def read(self, pipe: SocketPipe, until: float) -> bytes:
        """Return the next bytes of a pipe, b"" at its end. Raises ReadLate, OSError."""
        self._due[pipe] = until
        if until < self._next:
            self._next = self._sleep.deadline = until
        try:
            return await pipe.read()
        except trio.ClosedResourceError:
            if pipe in self._late:
                raise ReadLate from None
            raise
        finally:
            del self._due[pipe]
            self._late.discard(pipe)
            if not self._due:
                self._next = self._sleep.deadline = math.inf

    async def _watch(self) -> None:
        while True:
            with trio.CancelScope(deadline=self._next) as self._sleep:
                await trio.sleep_forever()
            now = trio.current_time()
            for pipe, due in self._due.items():
                if due <= now and pipe not in self._late:
                    self._late.add(pipe)
                    pipe.end_wait()
            self._next = min((due for due in self._due.values() if due > now), default=math.inf)
