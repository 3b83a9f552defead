"""One stream: what is left to read after an end, and what may no longer be sent."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from llmgw.net.h2_stream import H2Stream, Headers, StreamBroken
from llmgw.wire.agent_frames import BadFlag, FrameTooLarge, frame


class _Carrier:
    """Takes what a stream sends, as far as `room` allows, and notes what was consumed."""

    def __init__(self, room: int = 10**9) -> None:
        self.room = room
        self.sent = b""
        self.consumed_bytes = 0
        self.ends: list[str] = []

    def send_headers(self, stream_id: int, headers: Headers, end: bool) -> None:
        self.ends.append(f"headers {dict(headers)[':status']}")

    def send_some(self, stream_id: int, data: bytes) -> int:
        taken = min(self.room, len(data))
        self.room -= taken
        self.sent += data[:taken]
        return taken

    def send_end(self, stream_id: int) -> None:
        self.ends.append("end")

    def send_reset(self, stream_id: int, code: int) -> None:
        self.ends.append(f"reset {code}")

    def consumed(self, stream_id: int, size_bytes: int) -> None:
        self.consumed_bytes += size_bytes

    async def drained(self) -> None:
        await trio.lowlevel.checkpoint()


def test_documents_are_assembled_from_single_bytes_and_consumed_as_they_are_read() -> None:
    async def main() -> None:
        carrier = _Carrier()
        stream = H2Stream(carrier, 1, [])
        for byte in frame(b"hello") + frame(b""):
            stream.on_data(bytes([byte]), 2)
        assert carrier.consumed_bytes == 0
        assert await stream.receive_document() == b"hello"
        assert carrier.consumed_bytes == 2 * 15
        assert await stream.receive_document() == b""
        stream.on_end()
        assert await stream.receive_document() is None

    trio.run(main)


def test_an_end_inside_a_message_is_no_end() -> None:
    async def main() -> None:
        stream = H2Stream(_Carrier(), 1, [])
        stream.on_data(frame(b"hello")[:-1], 9)
        stream.on_end()
        with pytest.raises(StreamBroken, match="inside a message"):
            await stream.receive_document()

    trio.run(main)


@pytest.mark.parametrize(("data", "error"), [(b"\x07", BadFlag), (b"\x00\xff\xff\xff\xff", FrameTooLarge)])
def test_framing_that_cannot_be_followed_is_told(data: bytes, error: type[Exception]) -> None:
    async def main() -> None:
        stream = H2Stream(_Carrier(), 1, [])
        stream.on_data(data, len(data))
        with pytest.raises(error):
            await stream.receive_document()

    trio.run(main)


def test_a_failure_reaches_reader_and_writer_and_the_first_reason_stands() -> None:
    async def main() -> None:
        stream = H2Stream(_Carrier(room=3), 1, [])
        reasons: list[str] = []

        async def read() -> None:
            with pytest.raises(StreamBroken) as broken:
                await stream.receive_some()
            reasons.append(broken.value.reason)

        async def write() -> None:
            with pytest.raises(StreamBroken) as broken:
                await stream.send(b"more than three")
            reasons.append(broken.value.reason)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            nursery.start_soon(write)
            await trio.testing.wait_all_tasks_blocked()
            stream.fail("cut")
            stream.fail("cut again")
        assert reasons == ["cut", "cut"]
        stream.end()
        stream.reset(1)

    trio.run(main)


def test_data_after_a_failure_still_opens_the_connections_window() -> None:
    carrier = _Carrier()
    stream = H2Stream(carrier, 1, [])
    stream.fail("cut")
    stream.on_data(b"late", 4)
    assert carrier.consumed_bytes == 4


def test_an_empty_data_frame_with_padding_opens_the_window_at_once() -> None:
    carrier = _Carrier()
    H2Stream(carrier, 1, []).on_data(b"", 200)
    assert carrier.consumed_bytes == 200


def test_messages_of_two_senders_do_not_interleave() -> None:
    async def main() -> None:
        carrier = _Carrier(room=4)
        stream = H2Stream(carrier, 1, [])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream.send_document, b"a" * 20)
            nursery.start_soon(stream.send_document, b"b" * 20)
            while len(carrier.sent) < 50:
                await trio.testing.wait_all_tasks_blocked()
                carrier.room = 3
                stream.on_window()
        assert carrier.sent in (
            frame(b"a" * 20) + frame(b"b" * 20),
            frame(b"b" * 20) + frame(b"a" * 20),
        )

    trio.run(main)


def test_after_its_end_a_stream_sends_nothing_more() -> None:
    async def main() -> None:
        carrier = _Carrier()
        stream = H2Stream(carrier, 1, [])
        stream.start([(":status", "200")])
        stream.end()
        stream.end()
        with pytest.raises(StreamBroken):
            await stream.send(b"x")
        assert carrier.ends == ["headers 200", "end"]
        assert not stream.is_over()
        stream.on_end()
        assert stream.is_over()
        stream.reset(1)
        assert carrier.ends == ["headers 200", "end"]

    trio.run(main)


def test_a_message_that_was_cut_ends_in_a_reset() -> None:
    async def main() -> None:
        carrier = _Carrier(room=3)
        stream = H2Stream(carrier, 1, [])
        with trio.move_on_after(0.01):
            await stream.send_document(b"hello")
        stream.end()
        assert carrier.ends == ["reset 8"]

    trio.run(main)
