"""One HTTP/2 connection, either side of it, over any Trio stream: h2's state machine with a reader and a writer.

The reader never waits for the application: what arrives lies in the streams, bounded by their windows. So pings are
answered, and silence is noticed, however slow the application is. Only the writer touches the socket's sending side,
so that a cancelled sender cannot cut a TLS record; what waits for it is bounded too, because a peer that floods pings
and reads no answers would otherwise fill the memory (it is cut off at 1 MiB).

Dead peers are noticed by HTTP/2 PING (P-11, P-12): after `quiet_s` without a byte one is sent, and `answer_s` later
the connection is over. A machine switched off is otherwise noticed by the kernel after some fifteen minutes.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import trio

from llmgw.net.h2_stream import H2Stream, Headers

READ_BYTES = 65_536
HIGH_WATER_BYTES = 65_536
UNREAD_LIMIT_BYTES = 1024 * 1024
GOODBYE_S = 1.0
_Codes = h2.settings.SettingCodes


@dataclass(frozen=True, slots=True)
class Keepalive:
    """How silence is noticed: a ping after `quiet_s`, the end `answer_s` later."""

    quiet_s: float = 10.0
    answer_s: float = 5.0


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """What a peer may open (P-14). `idle_s` bounds a connection without a request; None on the dialling side."""

    max_streams: int = 4
    max_header_bytes: int = 16_384
    idle_s: float | None = 10.0


class H2Connection:
    """A connection and its streams. `run` owns it; `end` stops it for a reason that all streams then give."""

    def __init__(
        self,
        transport: trio.abc.Stream,
        *,
        is_client: bool,
        keepalive: Keepalive,
        limits: StreamLimits,
        on_request: Callable[[H2Stream], None] | None = None,
    ) -> None:
        self.reason: str | None = None
        self._transport = transport
        self._keepalive = keepalive
        self._limits = limits
        self._on_request = on_request
        self._h2 = _state_machine(is_client, limits)
        self._streams: dict[int, H2Stream] = {}
        self._over = trio.Event()
        self._work = trio.Event()
        self._room = trio.Event()
        self._pending = bytearray()
        self._in_flight = 0
        self._reads = 0
        self._heard_at_s = trio.current_time()
        self._idle_since_s = trio.current_time()
        self._h2.initiate_connection()
        self._collect()

    async def run(self, first_bytes: bytes = b"") -> None:
        """Carry the connection until it ends; always leaves the transport closed. Never raises for what a peer does.

        `first_bytes` are those already read from the transport.
        """
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write)
                nursery.start_soon(self._read, first_bytes)
                nursery.start_soon(self._notice_silence)
                if self._limits.idle_s is not None:
                    nursery.start_soon(self._notice_idleness, self._limits.idle_s)
                await self._over.wait()
                nursery.cancel_scope.cancel()
        finally:
            self.end("the connection was closed by this side")
            await trio.aclose_forcefully(self._transport)

    def open_stream(self, headers: Headers) -> H2Stream:
        """Send a request's headers and return its stream, whose `headers` are empty until the response."""
        stream_id = self._h2.get_next_available_stream_id()
        self._h2.send_headers(stream_id, headers)
        stream = self._streams[stream_id] = H2Stream(self, stream_id, [])
        self._collect()
        return stream

    def end(self, reason: str) -> None:
        """End at once: every stream fails with `reason`. The first reason stands."""
        if self.reason is None:
            self.reason = reason
        for stream in list(self._streams.values()):
            stream.fail(self.reason)
        self._room.set()
        self._over.set()

    async def close(self, bound_s: float = GOODBYE_S) -> None:
        """Say GOAWAY, let what is queued leave (at most `bound_s`), and end."""
        with suppress(h2.exceptions.ProtocolError):
            self._h2.close_connection()
        await self.flush(bound_s)
        self.end("the connection was closed by this side")

    async def flush(self, bound_s: float = GOODBYE_S) -> None:
        """Wait, at most `bound_s`, until nothing is queued for the socket."""
        self._collect()
        with trio.move_on_after(bound_s):
            while self.reason is None and (self._pending or self._in_flight):
                await self._room.wait()

    # What streams ask (StreamCarrier).

    def send_headers(self, stream_id: int, headers: Headers, end: bool) -> None:
        """Queue a header block."""
        with suppress(h2.exceptions.ProtocolError):
            self._h2.send_headers(stream_id, headers, end_stream=end)
        self._collect()
        self._forget_if_over(stream_id)

    def send_some(self, stream_id: int, data: bytes) -> int:
        """Queue what window and frame size allow; return its length in bytes."""
        try:
            size_bytes = min(
                self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size, len(data)
            )
            if size_bytes <= 0:
                return 0
            self._h2.send_data(stream_id, data[:size_bytes])
        except h2.exceptions.ProtocolError as error:
            if stream_id in self._streams:
                self._streams[stream_id].fail(str(error))
            return 0
        self._collect()
        return size_bytes

    def send_end(self, stream_id: int) -> None:
        """Queue END_STREAM."""
        with suppress(h2.exceptions.ProtocolError):
            self._h2.end_stream(stream_id)
        self._collect()
        self._forget_if_over(stream_id)

    def send_reset(self, stream_id: int, code: int) -> None:
        """Queue RST_STREAM."""
        with suppress(h2.exceptions.ProtocolError):
            self._h2.reset_stream(stream_id, code)
        self._collect()
        self._forget(stream_id)

    def consumed(self, stream_id: int, size_bytes: int) -> None:
        """Open the windows by what was read."""
        with suppress(h2.exceptions.ProtocolError):
            if size_bytes:
                self._h2.acknowledge_received_data(size_bytes, stream_id)
        self._collect()

    async def drained(self) -> None:
        """Wait while more than the high water mark is queued."""
        while self.reason is None and len(self._pending) + self._in_flight > HIGH_WATER_BYTES:
            await self._room.wait()

    # The three tasks.

    async def _read(self, first_bytes: bytes) -> None:
        data = first_bytes
        while True:
            if data:
                self._reads += 1
                self._heard_at_s = trio.current_time()
                if not await self._take(data):
                    return
            try:
                data = bytes(await self._transport.receive_some(READ_BYTES))
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                self.end(f"the connection broke: {error.__cause__ or error}")
                return
            if not data:
                self.end("the peer closed the connection")
                return

    async def _take(self, data: bytes) -> bool:
        """Feed h2 and hand its events on; False when the connection is over."""
        try:
            for event in self._h2.receive_data(data):
                self._dispatch(event)
        except h2.exceptions.ProtocolError as error:
            await self.flush()
            self.end(f"the peer broke HTTP/2: {error or type(error).__name__}")
            return False
        self._collect()
        if len(self._pending) > UNREAD_LIMIT_BYTES:
            self.end("the peer sends without reading")
        return self.reason is None

    async def _write(self) -> None:
        while True:
            if not self._pending:
                self._work = trio.Event()
                await self._work.wait()
                continue
            data, self._pending = bytes(self._pending), bytearray()
            self._in_flight = len(data)
            try:
                await self._transport.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                # The reader may hold the better reason, such as a TLS alert that says which certificate is missing.
                await trio.sleep(GOODBYE_S)
                self.end(f"the connection broke: {error.__cause__ or error}")
                return
            self._in_flight = 0
            self._room.set()
            self._room = trio.Event()

    async def _notice_silence(self) -> None:
        while True:
            await trio.sleep_until(self._heard_at_s + self._keepalive.quiet_s)
            if trio.current_time() < self._heard_at_s + self._keepalive.quiet_s:
                continue
            reads = self._reads
            with suppress(h2.exceptions.ProtocolError):
                self._h2.ping(b"llmgw\0\0\0")
            self._collect()
            await trio.sleep(self._keepalive.answer_s)
            if self._reads == reads:
                quiet_s, answer_s = self._keepalive.quiet_s, self._keepalive.answer_s
                self.end(
                    f"nothing was heard for {quiet_s:g} s and a ping was not answered within {answer_s:g} s"
                )
                return

    async def _notice_idleness(self, idle_s: float) -> None:
        while True:
            await trio.sleep_until(self._idle_since_s + idle_s)
            if self._streams:
                await trio.sleep(idle_s)
            elif trio.current_time() >= self._idle_since_s + idle_s:
                await self.close()
                return

    def _dispatch(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self._accept(event.stream_id, _text(event.headers))
        elif isinstance(event, h2.events.DataReceived):
            self._on_data(event)
        elif isinstance(event, h2.events.ConnectionTerminated):
            self._on_goaway(event)
        elif isinstance(event, h2.events.WindowUpdated | h2.events.RemoteSettingsChanged):
            for stream in self._streams.values():
                stream.on_window()
        elif isinstance(event, h2.events.ResponseReceived | h2.events.StreamEnded | h2.events.StreamReset):
            self._on_stream_event(event)

    def _accept(self, stream_id: int, headers: Headers) -> None:
        if self._on_request is None:
            return
        stream = self._streams[stream_id] = H2Stream(self, stream_id, headers)
        self._on_request(stream)

    def _on_data(self, event: h2.events.DataReceived) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            self.consumed(event.stream_id, event.flow_controlled_length)
        else:
            stream.on_data(event.data, event.flow_controlled_length)

    def _on_stream_event(
        self, event: h2.events.ResponseReceived | h2.events.StreamEnded | h2.events.StreamReset
    ) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None:
            return
        if isinstance(event, h2.events.ResponseReceived):
            stream.on_headers(_text(event.headers))
        elif isinstance(event, h2.events.StreamEnded):
            stream.on_end()
            self._forget_if_over(event.stream_id)
        else:
            stream.fail(f"the peer reset the stream with {_code_name(event.error_code)}")
            self._forget(event.stream_id)

    def _on_goaway(self, event: h2.events.ConnectionTerminated) -> None:
        self.end(f"the peer ended the connection with {_code_name(event.error_code)}")

    def _forget_if_over(self, stream_id: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is not None and stream.is_over():
            self._forget(stream_id)

    def _forget(self, stream_id: int) -> None:
        if self._streams.pop(stream_id, None) is not None:
            self._idle_since_s = trio.current_time()

    def _collect(self) -> None:
        """Move what h2 wants to say to the writer."""
        self._pending += self._h2.data_to_send()
        if self._pending:
            self._work.set()


def _state_machine(is_client: bool, limits: StreamLimits) -> h2.connection.H2Connection:
    """Return h2's connection with our limits in force before the peer has acknowledged them."""
    config = h2.config.H2Configuration(client_side=is_client, header_encoding=None)
    machine = h2.connection.H2Connection(config)
    values = {
        _Codes.MAX_CONCURRENT_STREAMS: limits.max_streams,
        _Codes.MAX_HEADER_LIST_SIZE: limits.max_header_bytes,
    }
    if is_client:
        values[_Codes.ENABLE_PUSH] = 0
    machine.local_settings = h2.settings.Settings(client=is_client, initial_values=values)
    machine.decoder.max_header_list_size = limits.max_header_bytes
    return machine


def _text(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Decode headers as Latin-1, which takes any bytes; HTTP/2 names are lower case already."""
    return [(bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in headers]


def _code_name(code: int | None) -> str:
    try:
        return h2.errors.ErrorCodes(code).name
    except ValueError:
        return f"code {code}"
