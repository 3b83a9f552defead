"""One HTTP/2 stream as a pair of message pipes: whole documents in, whole documents out (20 P-2, P-3, P-15).

Flow control follows the application. Bytes that arrived stay inside the window the peer was given until a reader
takes them; only then is the window opened again. A reader that stalls so stops the peer after one window, 64 KiB, and
nothing grows. Sending waits for the peer's window in the same way.
"""

from typing import Protocol

import trio

from llmgw.wire.agent_frames import FrameDecoder, frame

Headers = list[tuple[str, str]]


class StreamBroken(Exception):
    """The stream or its connection is gone; `reason` is a sentence part fit for a log."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class StreamCarrier(Protocol):
    """What a stream asks of its connection. None of these waits except `drained`."""

    def send_headers(self, stream_id: int, headers: Headers, end: bool) -> None:
        """Queue a header block."""
        ...

    def send_some(self, stream_id: int, data: bytes) -> int:
        """Queue as much of `data` as window and frame size allow; return how many bytes that was, 0 for none."""
        ...

    def send_end(self, stream_id: int) -> None:
        """Queue END_STREAM."""
        ...

    def send_reset(self, stream_id: int, code: int) -> None:
        """Queue RST_STREAM with an HTTP/2 error code."""
        ...

    def consumed(self, stream_id: int, size_bytes: int) -> None:
        """Open the receive windows again by what a reader took."""
        ...

    async def drained(self) -> None:
        """Wait while too much is queued for the socket."""
        ...


class H2Stream:
    """A stream of one connection. One task may receive while others send; messages never interleave."""

    def __init__(self, carrier: StreamCarrier, stream_id: int, headers: Headers) -> None:
        self.stream_id = stream_id
        self.headers = headers
        self._carrier = carrier
        self._decoder = FrameDecoder()
        self._arrived = bytearray()
        self._arrived_flow = 0
        self._peer_is_done = False
        self._is_done = False
        self._is_torn = False
        self._failure: str | None = None
        self._changed = trio.Event()
        self._sending = trio.Lock()

    # What the connection tells.

    def on_headers(self, headers: Headers) -> None:
        """Take the response headers."""
        self.headers = headers
        self._wake()

    def on_data(self, data: bytes, flow_bytes: int) -> None:
        """Take received bytes; they hold `flow_bytes` of the window until someone reads them."""
        if self._failure is not None or not data:
            self._carrier.consumed(self.stream_id, flow_bytes)
            return
        self._arrived += data
        self._arrived_flow += flow_bytes
        self._wake()

    def on_end(self) -> None:
        """Take the peer's END_STREAM."""
        self._peer_is_done = True
        self._wake()

    def on_window(self) -> None:
        """Learn that more may be sent."""
        self._wake()

    def fail(self, reason: str) -> None:
        """End the stream for both directions; the first reason stands."""
        if self._failure is None:
            self._failure = reason
            self._wake()

    def is_over(self) -> bool:
        """Return whether both directions ended, or the stream failed."""
        return self._failure is not None or (self._peer_is_done and self._is_done)

    # What its user does.

    async def response(self) -> Headers:
        """Wait for the response headers. Raises StreamBroken."""
        while not self.headers:
            await self._change()
        return self.headers

    async def receive_some(self) -> bytes | None:
        """Return the next bytes, or None at END_STREAM. Raises StreamBroken."""
        while not self._arrived:
            if self._peer_is_done:
                return None
            await self._change()
        data, flow_bytes = bytes(self._arrived), self._arrived_flow
        self._arrived.clear()
        self._arrived_flow = 0
        self._carrier.consumed(self.stream_id, flow_bytes)
        return data

    async def receive_document(self) -> bytes | None:
        """Return the next message's bytes, or None at END_STREAM.

        Raises StreamBroken, also for an end inside a message, and FrameTooLarge and BadFlag of `wire.agent_frames`.
        """
        while True:
            document = self._decoder.next_document()
            if document is not None:
                return document
            data = await self.receive_some()
            if data is None:
                if self._decoder.is_between_messages():
                    return None
                raise StreamBroken("the stream ended inside a message")
            self._decoder.feed(data)

    def start(self, headers: Headers, *, end: bool = False) -> None:
        """Send a header block: a server's response. Raises StreamBroken."""
        self._check()
        self._carrier.send_headers(self.stream_id, headers, end)
        self._is_done = end

    async def send_document(self, document: bytes) -> None:
        """Send one message, waiting for the peer's window. Raises StreamBroken.

        When cancelled half way the framing is lost, so every later send fails and `end` resets the stream.
        """
        await self.send(frame(document))

    async def send(self, data: bytes) -> None:
        """Send bytes whole, as `send_document` does."""
        async with self._sending:
            self._check()
            while data:
                taken = self._carrier.send_some(self.stream_id, data)
                data = data[taken:]
                self._is_torn = bool(data)
                if taken:
                    await self._carrier.drained()
                    self._check_failure()
                else:
                    await self._change()

    def end(self) -> None:
        """Send END_STREAM, or a reset when a message was cut. Harmless when the stream is over."""
        if self._failure is not None or self._is_done:
            return
        if self._is_torn:
            self.reset(8)
            return
        self._is_done = True
        self._carrier.send_end(self.stream_id)

    def reset(self, code: int) -> None:
        """Reset the stream with an HTTP/2 error code (RFC 9113 section 7). Harmless when the stream is over."""
        if not self.is_over():
            self._carrier.send_reset(self.stream_id, code)
            self.fail("reset by this side")

    async def closed_by_peer(self) -> None:
        """Wait until the peer ended or broke the stream, throwing away what it still sends."""
        try:
            while await self.receive_some() is not None:
                pass
        except StreamBroken:
            pass

    def _check(self) -> None:
        self._check_failure()
        if self._is_done or self._is_torn:
            raise StreamBroken("this side already ended the stream")

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise StreamBroken(self._failure)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _change(self) -> None:
        """Wait for the next change; both a reader and a writer may. Raises StreamBroken once the stream failed."""
        self._check_failure()
        await self._changed.wait()
        self._check_failure()
