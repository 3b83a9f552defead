"""The control port over a socket pair: a gateway in a process of its own asks the control process.

Two rules keep it honest. Frames are written by one task from a queue, because a send cancelled half way through would
leave half a frame and make every later one unreadable; a caller that leaves therefore never touches the socket. And a
caller that leaves tells the other side, because `feed` may wait for hours and would otherwise wait for nobody.

The queues have no bound of their own: each caller has at most one call and one cancellation in them.
"""

import math
from typing import TypeVar

import trio

from llmgw.ports import ControlPort, Found, LeaseAsk, LeaseGrant, Report, Snapshot, StoreUnavailable
from llmgw.wire.control_port import (
    Answer,
    Away,
    BadFrame,
    Call,
    Cancel,
    Failed,
    Fed,
    Feed,
    Frames,
    Lease,
    Leased,
    LookedUp,
    Lookup,
    Noted,
    Reported,
    decode_answer,
    decode_call,
    frame,
)

READ_BYTES = 65_536
T = TypeVar("T", Fed, LookedUp, Leased, Noted)


class ControlLost(StoreUnavailable):
    """The other process is gone or the pipe broke. What a gateway knows stays valid, as with a store that is away."""


class ControlFault(Exception):
    """The control process failed at a call; its own log has the reason."""


async def _write_all(stream: trio.abc.SendStream, queue: trio.MemoryReceiveChannel[Call | Answer]) -> None:
    async for message in queue:
        await stream.send_all(frame(message))


class ControlClient:
    """`ControlPort` for a gateway process. Use it while `run` runs; afterwards every call raises ControlLost."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._outbox, self._to_write = trio.open_memory_channel[Call | Answer](math.inf)
        self._waiting: dict[int, trio.Event] = {}
        self._answers: dict[int, Answer] = {}
        self._last_call = 0
        self._is_lost = False

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Carry calls until cancelled. Raises ControlLost when the other side ends or sends what no release sends."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_write_all, self._stream, self._to_write)
                task_status.started()
                await self._read()
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError, BadFrame):
            pass
        finally:
            self._end()
        raise ControlLost("The control process is not reachable.")

    async def _read(self) -> None:
        frames = Frames()
        while data := await self._stream.receive_some(READ_BYTES):
            for body in frames.feed(bytes(data)):
                answer = decode_answer(body)
                answered = self._waiting.pop(answer.call, None)
                if answered is not None:
                    self._answers[answer.call] = answer
                    answered.set()

    def _end(self) -> None:
        self._is_lost = True
        for event in self._waiting.values():
            event.set()
        self._waiting.clear()

    def _next_call(self) -> int:
        self._last_call += 1
        return self._last_call

    async def _ask(self, message: Feed | Lookup | Lease | Reported, expected: type[T]) -> T:
        if self._is_lost:
            raise ControlLost("The control process is not reachable.")
        call = message.call
        answered = self._waiting[call] = trio.Event()
        self._outbox.send_nowait(message)
        try:
            await answered.wait()
        except trio.Cancelled:
            if self._waiting.pop(call, None) is not None:
                self._outbox.send_nowait(Cancel(call))
            self._answers.pop(call, None)
            raise
        return _unpack(self._answers.pop(call, None), expected)

    async def feed(self, after: int) -> Snapshot:
        """Wait for and return the first snapshot whose version is above `after`."""
        return (await self._ask(Feed(self._next_call(), after), Fed)).snapshot

    async def lookup(self, key_hash: str) -> Found:
        """Resolve a key. Raises StoreUnavailable."""
        return (await self._ask(Lookup(self._next_call(), key_hash), LookedUp)).found

    async def lease(self, ask: LeaseAsk) -> LeaseGrant:
        """Take allowance. Raises StoreUnavailable."""
        return (await self._ask(Lease(self._next_call(), ask), Leased)).grant

    async def report(self, report: Report) -> None:
        """Tell what happened."""
        await self._ask(Reported(self._next_call(), report), Noted)


def _unpack(answer: Answer | None, expected: type[T]) -> T:
    if isinstance(answer, expected):
        return answer
    if isinstance(answer, Away):
        raise StoreUnavailable(answer.sentence)
    if answer is None:
        raise ControlLost("The control process is not reachable.")
    raise ControlFault(
        answer.sentence if isinstance(answer, Failed) else f"The answer {answer!r} fits no such call."
    )


class ControlServer:
    """Answers one gateway process from the real port."""

    def __init__(self, stream: trio.abc.Stream, port: ControlPort) -> None:
        self._stream = stream
        self._port = port
        self._outbox, self._to_write = trio.open_memory_channel[Call | Answer](math.inf)
        self._running: dict[int, trio.CancelScope] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Answer calls until the gateway process hangs up, or until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_write_all, self._stream, self._to_write)
                task_status.started()
                await self._read(nursery)
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError, BadFrame):
            await trio.aclose_forcefully(self._stream)

    @property
    def calls(self) -> int:
        """How many calls are being answered now."""
        return len(self._running)

    async def _read(self, nursery: trio.Nursery) -> None:
        frames = Frames()
        while data := await self._stream.receive_some(READ_BYTES):
            for body in frames.feed(bytes(data)):
                message = decode_call(body)
                if isinstance(message, Cancel):
                    if scope := self._running.get(message.call):
                        scope.cancel()
                else:
                    scope = self._running[message.call] = trio.CancelScope()
                    nursery.start_soon(self._serve, message, scope)

    async def _serve(self, message: Feed | Lookup | Lease | Reported, scope: trio.CancelScope) -> None:
        try:
            with scope:
                self._outbox.send_nowait(await self._answer(message))
        except StoreUnavailable as away:
            self._outbox.send_nowait(Away(message.call, str(away)))
        except Exception as fault:  # the supervisor of a call: one bad call must not end its neighbours
            self._outbox.send_nowait(
                Failed(message.call, f"{type(fault).__name__} in the control process: {fault}")
            )
        finally:
            del self._running[message.call]

    async def _answer(self, message: Feed | Lookup | Lease | Reported) -> Answer:
        if isinstance(message, Feed):
            return Fed(message.call, await self._port.feed(message.after))
        if isinstance(message, Lookup):
            return LookedUp(message.call, await self._port.lookup(message.key_hash))
        if isinstance(message, Lease):
            return Leased(message.call, await self._port.lease(message.ask))
        await self._port.report(message.report)
        return Noted(message.call)
