"""F-1, S-20, X-34: a client that is gone ends what runs for it, in every phase."""

import socket
import struct

import pytest
import trio

from llmgw.net.http_message import Request, Responder
from tests.net.client_listener import Site, Wire, run, serving

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"


class Probe:
    """A handler that gets as far as it is told to, waits there, and says how it ended."""

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.arrived = trio.Event()
        self.ended = trio.Event()
        self.request: Request | None = None
        self.was_cancelled = False

    async def __call__(self, request: Request, responder: Responder) -> None:
        self.request = request
        try:
            if self.phase == "body":
                self.arrived.set()
                await request.read_body(100)
            if self.phase in ("started", "streaming"):
                await responder.start(200, [])
            if self.phase == "streaming":
                await responder.write(b"one")
            self.arrived.set()
            await trio.sleep_forever()
        except trio.Cancelled:
            self.was_cancelled = True
            raise
        finally:
            self.ended.set()


def hang_up(wire: Wire) -> None:
    wire.stream.socket.close()


def half_close(wire: Wire) -> None:
    wire.stream.socket.shutdown(socket.SHUT_WR)


def reset(wire: Wire) -> None:
    wire.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.stream.socket.close()


@pytest.mark.parametrize("leave", [hang_up, half_close, reset])
@pytest.mark.parametrize("phase", ["body", "waiting", "started", "streaming"])
def test_the_handler_is_cancelled_within_a_second(phase: str, leave: object) -> None:
    async def main() -> None:
        probe = Probe(phase)
        async with serving(probe) as site:
            wire = await site.connect()
            await wire.send(HALF if phase == "body" else GET)
            await probe.arrived.wait()
            began = trio.current_time()
            leave(wire)  # type: ignore[operator]
            await probe.ended.wait()
            assert trio.current_time() - began < 1
            assert probe.was_cancelled
            assert probe.request is not None
            assert probe.request.client_gone
            await everyone_gone(site)

    run(main)


async def everyone_gone(site: Site) -> None:
    await site.settle()
    assert site.server.connections == 0


@pytest.mark.parametrize("behind", [b"garbage that is no request", GET * 3, b"x" * 3_000_000])
def test_bytes_behind_the_request_are_no_leave_and_a_leave_behind_them_is_seen(behind: bytes) -> None:
    async def main() -> None:
        probe = Probe("waiting")
        async with serving(probe) as site:
            wire = await site.connect()
            await wire.send(GET)
            await probe.arrived.wait()
            async with trio.open_nursery() as nursery:

                async def push() -> None:
                    try:
                        await wire.send(behind)
                    except (trio.BrokenResourceError, trio.ClosedResourceError):
                        return

                nursery.start_soon(push)
                await trio.sleep(5)
                assert not probe.ended.is_set()
                began = trio.current_time()
                reset(wire)
                await probe.ended.wait()
                assert trio.current_time() - began < 1

    run(main)


def test_what_is_read_ahead_is_bounded() -> None:
    async def main() -> None:
        probe = Probe("waiting")
        async with serving(probe) as site:
            wire = await site.connect()
            await wire.send(GET)
            await probe.arrived.wait()
            with trio.move_on_after(5) as scope:
                await wire.send(b"x" * 30_000_000)
            assert scope.cancelled_caught  # the kernel's buffers and 256 KiB are full; nobody takes the rest

    run(main)


def test_a_client_that_does_not_read_is_cut_after_the_write_stall() -> None:
    ended: list[float] = []

    async def flood(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        began = trio.current_time()
        try:
            while True:
                await responder.write(b"x" * 65_536)
        finally:
            ended.append(trio.current_time() - began)
            assert request.client_gone

    async def main() -> None:
        async with serving(flood) as site:
            wire = await site.connect()
            await wire.send(GET)
            await trio.sleep(70)
            assert len(ended) == 1
            assert 59 < ended[0] < 62
            await everyone_gone(site)
            await wire.stream.aclose()

    run(main)


def test_a_slow_reader_is_not_cut_while_it_reads() -> None:
    size = 4_000_000

    async def large(request: Request, responder: Responder) -> None:
        await responder.respond(200, [], b"x" * size)

    async def main() -> None:
        async with serving(large) as site:
            wire = await site.connect()
            wire.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            await wire.send(GET)
            await wire.until(b"\r\n\r\n")
            got = len(wire.unread)
            while got < size:
                await trio.sleep(20)
                for _ in range(4):
                    got += len(await wire.stream.receive_some(65_536))
            assert got == size

    run(main)


def test_neighbours_go_on_when_one_leaves() -> None:
    async def main() -> None:
        probe = Probe("streaming")
        async with serving(probe) as site:
            stays, leaves = await site.connect(), await site.connect()
            await stays.send(GET)
            await stays.until(b"one\r\n")
            await leaves.send(GET)
            await leaves.until(b"one\r\n")
            hang_up(leaves)
            await site.settle()
            assert site.server.connections == 1

    run(main)
