"""One client's HTTP/1.1 connection: a task that only reads, and one that answers request after request.

The naive loop reads a request, answers it, reads the next - and learns that its client left only when a write fails,
minutes into a prefill (F-1). So one task does nothing but read, for as long as the connection lasts, and puts what came
aside; when the client's side ends, it cancels the handler that runs. A half-closed connection counts as left: a FIN
after the whole request cannot be told from a program that ended (S-20).

Bytes put aside are parsed only when the answering task asks for them. Hence pipelined requests are answered in order,
and the read-ahead is bounded: above 256 KiB nothing is read, and the kernel is asked every half second whether the
client hung up behind its unread bytes.

What a request needs is made once a connection, since a cancel scope costs as much as parsing a request: one scope ends
whatever runs when the client leaves, after which nothing follows anyway; and the answering task's deadlines are one
number, which the reading task's scope looks at. That scope is moved only to an earlier time. Where the number moved on
meanwhile, it wakes too early, sees that, and goes back to sleep: once in two minutes instead of twice a request.
"""

import math
from collections import deque

import trio

from llmgw.net.http1_answer import DateField, Http1Answer
from llmgw.net.http_message import ClientFault, ClientLeft, FaultAnswer, Handler, Headers, Request
from llmgw.net.limits import ListenerLimits
from llmgw.net.socket_pipe import SocketPipe, WriteStalled
from llmgw.wire.http1 import Body, End, Event, Head, Malformed, RequestParser

_AHEAD_BYTES = 262_144
_HANG_UP_POLL_S = 0.5
_LINGER_S = 5.0
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Http1Connection:
    """Serves one client until either side ends. `retire` lets what runs finish and takes nothing more."""

    def __init__(
        self, pipe: SocketPipe, client: str, handler: Handler, limits: ListenerLimits, on_fault: FaultAnswer,
        date: DateField, inflating: trio.CapacityLimiter,
    ) -> None:  # fmt: skip
        self._pipe = pipe
        self._client = client
        self._handler = handler
        self._limits = limits
        self._on_fault = on_fault
        self._date = date
        self.inflating = inflating
        self._parser = RequestParser(limits.header_bytes, limits.header_fields)
        self._events: deque[Event] = deque()
        self._ahead: list[bytes] = []
        self._ahead_bytes = 0
        self._has_left = False
        self._is_retiring = False
        self._is_discarding = False
        self._sleeper: trio.lowlevel.Task | None = None
        self._room = trio.lowlevel.ParkingLot()
        self._answering = trio.CancelScope()
        self._watch = trio.CancelScope()
        self._due = math.inf
        self._is_late = False
        self._request: Request | None = None

    @property
    def is_answering(self) -> bool:
        """Whether a handler runs now."""
        return self._request is not None

    def retire(self) -> None:
        """Close when idle; after the running answer otherwise."""
        self._is_retiring = True
        self._wake()

    async def run(self) -> None:
        """Serve until the connection ends, then close the socket."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read)
                with self._answering:
                    await self._answer_all()
                nursery.cancel_scope.cancel()
        finally:
            self._pipe.close()

    # The reading task.

    async def _read(self) -> None:
        while not self._has_left:
            with trio.CancelScope(deadline=self._due) as self._watch:
                await self._read_on()
            if self._due <= trio.current_time():
                self._is_late = True
                self._wake()

    async def _read_on(self) -> None:
        """Read until the client has left, or the watch ends."""
        while True:
            if self._ahead_bytes >= _AHEAD_BYTES:
                await self._wait_for_room()
                if self._has_left:
                    return
                continue
            try:
                data = await self._pipe.read()
            except OSError:
                data = b""
            if not data:
                self._leave()
                return
            if not self._is_discarding:
                self._ahead.append(data)
                self._ahead_bytes += len(data)
                self._wake()

    async def _wait_for_room(self) -> None:
        with trio.move_on_after(_HANG_UP_POLL_S):
            await self._room.park()
        if self._pipe.has_hung_up():
            self._leave()

    def _leave(self) -> None:
        """Take note that the client is gone: end what runs for it."""
        self._has_left = True
        if self._request is not None:
            self._request.client_gone = True
        self._answering.cancel()
        self._wake()

    # The answering task.

    def next_event(self) -> Event | None:
        """Return the next event of what has arrived, None when more bytes are needed."""
        while not self._events and self._ahead:
            data = self._ahead[0] if len(self._ahead) == 1 else b"".join(self._ahead)
            self._drop_ahead()
            self._events.extend(self._parser.feed(data))
        return self._events.popleft() if self._events else None

    def _drop_ahead(self) -> None:
        self._ahead.clear()
        if self._ahead_bytes >= _AHEAD_BYTES:
            self._room.unpark_all()
        self._ahead_bytes = 0

    async def wait_for_bytes(self, until: float = math.inf) -> bool:
        """Wait until something arrived, the client left, or the connection was told to retire.

        Returns False when it was `until` before that. Raises ClientLeft where nothing can come any more.
        """
        if self._has_left:
            await trio.lowlevel.checkpoint()
            raise ClientLeft
        self._due, self._is_late = until, False
        if until < self._watch.deadline:
            self._watch.deadline = until
        self._sleeper = trio.lowlevel.current_task()
        try:
            await trio.lowlevel.wait_task_rescheduled(self._let_go)
        finally:
            self._due = math.inf
        return not self._is_late

    def _wake(self) -> None:
        """Let the answering task look around, if it waits."""
        task, self._sleeper = self._sleeper, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def _let_go(self, _: object) -> trio.lowlevel.Abort:
        """Let the answering task go, which is cancelled: it must not be woken a second time."""
        self._sleeper = None
        return trio.lowlevel.Abort.SUCCEEDED

    async def send(self, data: bytes) -> None:
        """Send bytes. A client that is gone, or takes nothing for the write stall (X-34), ends the caller."""
        try:
            await self._pipe.write_all(data, self._limits.write_stall_s)
        except (OSError, WriteStalled):
            self._leave()
            await trio.lowlevel.checkpoint()
            raise ClientLeft from None

    async def _answer_all(self) -> None:
        try:
            while (head := await self._next_head()) is not None:
                if not await self._answer_one(head):
                    return
        except ClientLeft:
            return

    async def _next_head(self) -> Head | None:
        """Wait for a request's head, or None when the connection is to end."""
        deadline = trio.current_time() + self._limits.idle_s
        has_begun = False
        while True:
            event = self.next_event()
            if isinstance(event, Head):
                return event
            if isinstance(event, Malformed):
                await self._refuse(ClientFault(event.status, event.reason))
                return None
            if self._has_left:
                return None
            if not has_begun and not self._parser.is_between_messages:
                has_begun = True
                deadline = trio.current_time() + self._limits.header_s
            if self._is_retiring and not has_begun:
                return None
            if not await self.wait_for_bytes(deadline):
                if has_begun:
                    await self._refuse(ClientFault(408, f"the request's head took over {self._limits.header_s:g} s"))
                return None

    async def _answer_one(self, head: Head) -> bool:
        """Run the handler for one request; return whether another may follow on this connection."""
        body = _Http1Body(self, head, self._limits)
        request = Request(
            head.method, head.target, Headers(head.fields), body, http_version=head.version, client=self._client
        )
        answer = Http1Answer(head, self._date, self.send, lambda: self._may_keep(head, body))
        request.client_gone = self._has_left
        self._request = request
        try:
            await self._run_handler(request, answer)
        finally:
            self._request = None
        if self._has_left or not answer.has_ended:
            return False
        if answer.keeps_alive:
            return True
        await self._linger(has_more=not body.skip_arrived())
        return False

    async def _run_handler(self, request: Request, answer: Http1Answer) -> None:
        fault: ClientFault | None = None
        try:
            await self._handler(request, answer)
            if not answer.started:
                fault = ClientFault(500, "the request was not answered")
        except ClientFault as raised:
            fault = raised
        except ClientLeft:
            return
        except Exception as crash:  # the supervisor of a request: its neighbours go on
            fault = ClientFault(500, "the server failed to answer this request")
            fault.__cause__ = crash
        if fault is not None:
            status, headers, content = self._on_fault(request, fault)
            if answer.take_back():
                closing = [("connection", "close")] if fault.must_close else []
                await answer.respond(status, [*headers, *closing], content)

    def _may_keep(self, head: Head, body: "_Http1Body") -> bool:
        """Return whether the connection can carry another request: this one's body must be out of the way."""
        return head.keeps_alive and not self._is_retiring and body.skip_arrived()

    async def _refuse(self, fault: ClientFault) -> None:
        """Answer what was no request, and close."""
        status, headers, content = self._on_fault(None, fault)
        head = Head("GET", "", "1.1", [], 0, keeps_alive=False, expects_continue=False)
        await Http1Answer(head, self._date, self.send, lambda: False).respond(status, headers, content)
        await self._linger(has_more=True)

    async def _linger(self, *, has_more: bool) -> None:
        """Let the client read the last answer before the socket closes.

        Closing a socket with unread bytes resets the connection, and a reset destroys what the client has not read yet:
        a refusal sent while it was still sending would never be seen. So bytes are read and dropped, for 5 s at most.
        """
        self._pipe.end_writing()
        self._is_discarding = True
        has_more = has_more or bool(self._ahead)
        self._drop_ahead()
        with trio.move_on_after(_LINGER_S if has_more else 0):
            while not self._has_left:
                await self.wait_for_bytes()


class _Http1Body:
    """The body of the request being answered; a `BodySource`."""

    __slots__ = ("_connection", "_limits", "_owes_continue", "_until", "declared_bytes", "inflating", "is_whole")

    def __init__(self, connection: Http1Connection, head: Head, limits: ListenerLimits) -> None:
        self._connection = connection
        self._limits = limits
        self._owes_continue = head.expects_continue
        self._until = trio.current_time() + limits.body_total_s
        self.declared_bytes = head.length
        self.inflating = connection.inflating
        self.is_whole = False

    async def receive(self) -> bytes:
        """Return the next bytes, b"" at the end."""
        due: float | None = None
        while not self.is_whole:
            data = self._next()
            if data or self.is_whole:
                return data
            if due is None:
                due = min(trio.current_time() + self._limits.body_progress_s, self._until)
            if self._owes_continue:
                self._owes_continue = False
                await self._connection.send(_CONTINUE)
            if not await self._connection.wait_for_bytes(due):
                raise ClientFault(408, self._what_stalled())
        return b""

    def _next(self) -> bytes:
        """Return bytes that have arrived, b"" when there are none or the body is whole. Raises ClientFault."""
        event = self._connection.next_event()
        if isinstance(event, Body):
            return event.data
        if isinstance(event, End):
            self.is_whole = True
        elif isinstance(event, Malformed):
            raise ClientFault(event.status, event.reason)
        return b""

    def _what_stalled(self) -> str:
        if trio.current_time() >= self._until:
            return f"the body was not whole after {self._limits.body_total_s:g} s"
        return f"no byte of the body came for {self._limits.body_progress_s:g} s"

    def skip_arrived(self) -> bool:
        """Drop what has arrived of a body nobody read; return whether that was all of it."""
        try:
            while not self.is_whole and self._next():
                pass
        except ClientFault:
            return False
        return self.is_whole
