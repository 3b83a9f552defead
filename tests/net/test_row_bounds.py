"""The rows of chapter 34 about HTTP/1.1 and streams, whole, each with the figures it names and no others."""

import gzip

import pytest
import trio

from llmgw.config.server import RouterSettings
from llmgw.net.deadlines import Deadlines
from llmgw.net.engine_pool import Endpoint, EnginePool
from llmgw.net.http_message import Request, Responder
from tests.net.client_listener import Site, Wire, run, serving

START = b"POST / HTTP/1.1\r\nHost: x\r\n"
MOST_BYTES = RouterSettings().max_body_bytes


async def sink(request: Request, responder: Responder) -> None:
    await request.read_body(MOST_BYTES)
    await responder.respond(200, [], b"")


async def trickle(wire: Wire, piece: bytes, every_s: float) -> None:
    try:
        while True:
            await trio.sleep(every_s)
            await wire.send(piece)
    except trio.BrokenResourceError:
        return


async def answered(site: Site, begun: bytes, piece: bytes = b"", every_s: float = 0.0) -> tuple[int, float]:
    """Send, then go on sending pieces; return the status of the answer and after how many seconds it came."""
    wire = await site.connect()
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.send, begun)
        if piece:
            nursery.start_soon(trickle, wire, piece, every_s)
        status, _, _ = await wire.answer()
        nursery.cancel_scope.cancel()
    took_s = trio.current_time() - began
    await wire.stream.aclose()
    return status, took_s


@pytest.mark.covers("X-32")
def test_every_bound_of_http1_holds() -> None:
    async def main() -> None:
        async with serving(sink) as site:
            assert await answered(site, START, b"x", 1) == (408, pytest.approx(10, abs=1))
            wide = START + b"X: " + b"x" * 65_536 + b"\r\n\r\n"
            assert (await answered(site, wide))[0] == 431
            fields = b"".join(b"x-%d: y\r\n" % number for number in range(98))
            assert (await answered(site, START + fields + b"Content-Length: 0\r\n\r\n"))[0] == 200
            assert (await answered(site, START + fields + b"a: b\r\nContent-Length: 0\r\n\r\n"))[0] == 431
            idle = await site.connect()
            began = trio.current_time()
            assert await idle.rest() == b""
            assert trio.current_time() - began == pytest.approx(120, abs=1)
            body = START + b"Content-Length: 1000\r\n\r\n"
            assert await answered(site, body) == (408, pytest.approx(30, abs=1))
            assert await answered(site, body, b"x", 20) == (408, pytest.approx(300, abs=1))
            both = START + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            assert (await answered(site, both))[0] == 400
            assert (await answered(site, START + b"Content-Length: %d\r\n\r\n" % (MOST_BYTES + 1)))[0] == 413
        assert MOST_BYTES == 33_554_432

    run(main)


@pytest.mark.covers("X-32")
def test_a_body_at_the_bound_passes_and_an_inflated_one_above_it_does_not() -> None:
    async def main() -> None:
        async with serving(sink) as site:
            for size, status in ((MOST_BYTES, 200), (MOST_BYTES + 1, 413)):
                packed = gzip.compress(b"\0" * size, 1)
                head = START + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
                assert (await answered(site, head + packed))[0] == status

    run(main, jumps=False)


@pytest.mark.covers("X-34")
def test_a_write_stall_of_60_s_cuts_the_client_and_hangs_up_on_the_engine() -> None:
    async def main() -> None:
        hung_up = trio.Event()
        cut_at: list[float] = []

        async def flood(stream: trio.SocketStream) -> None:
            try:
                await stream.receive_some(65_536)
                await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    await stream.send_all(b"x" * 65_536)
            except trio.BrokenResourceError:
                hung_up.set()

        async def relay(request: Request, responder: Responder) -> None:
            began = trio.current_time()
            try:
                async with pool.request(engine, "POST", "/", [], b"", Deadlines()) as answer:
                    await responder.start(200, [])
                    async for data in answer.chunks():
                        await responder.write(data)
            finally:
                cut_at.append(trio.current_time() - began)

        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        engine = Endpoint("127.0.0.1", listeners[0].socket.getsockname()[1])
        async with EnginePool() as pool, trio.open_nursery() as nursery, serving(relay) as site:
            nursery.start_soon(trio.serve_listeners, flood, listeners)
            wire = await site.connect()
            await wire.send(START + b"Content-Length: 0\r\n\r\n")
            await hung_up.wait()
            assert cut_at == [pytest.approx(60, abs=1)]
            await site.settle()
            assert site.server.connections == 0
            await wire.stream.aclose()
            nursery.cancel_scope.cancel()

    run(main)
