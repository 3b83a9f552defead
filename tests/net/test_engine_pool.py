"""Engines here are sockets that say exactly what the test writes, behind a real listener."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
import trio

from llmgw.net.deadlines import Deadlines
from llmgw.net.engine_pool import KEEP_IDLE_S, Endpoint, EngineAnswer, EnginePool
from llmgw.net.upstream_errors import (
    ConnectFailed,
    FirstByteTimeout,
    IdleTimeout,
    UpstreamBroken,
    UpstreamError,
)
from llmgw.testing.toxic import ToxicProxy, Toxics
from tests.net.client_listener import run

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = HEAD + b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
PATIENCE = Deadlines(connect_s=5, first_byte_s=600, idle_s=120)
Script = Callable[["Engine", trio.SocketStream], Awaitable[None]]


class Engine:
    """Runs a script for each connection and keeps what was asked."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.connections = 0
        self.requests: list[bytes] = []
        self.hung_up = trio.Event()
        self.port = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        async with stream:
            try:
                await self._script(self, stream)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self.hung_up.set()

    async def request(self, stream: trio.SocketStream) -> bytes:
        """Read one request whole; an ended connection is noted and b"" returned."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = await stream.receive_some(65_536)
            if not piece:
                self.hung_up.set()
                return b""
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        while len(body) < length:
            body += await stream.receive_some(65_536)
        self.requests.append(head + b"\r\n\r\n" + body)
        return self.requests[-1]


@asynccontextmanager
async def engine(script: Script) -> AsyncIterator[tuple[Engine, EnginePool]]:
    it = Engine(script)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    it.port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery, EnginePool() as pool:
        nursery.start_soon(trio.serve_listeners, it.serve, listeners)
        yield it, pool
        nursery.cancel_scope.cancel()


def says(*answers: bytes) -> Script:
    """Answer request after request; a pause between pieces is a None-free list of bytes sent one by one."""

    async def script(it: Engine, stream: trio.SocketStream) -> None:
        for answer in answers:
            if not await it.request(stream):
                return
            await stream.send_all(answer)

    return script


async def forever(it: Engine, stream: trio.SocketStream) -> None:
    while await it.request(stream):
        await stream.send_all(WHOLE)


async def ask(pool: EnginePool, port: int, body: bytes = b"{}", deadlines: Deadlines = PATIENCE) -> bytes:
    async with pool.request(Endpoint("127.0.0.1", port), "POST", "/v1/x", [("a", "b")], body, deadlines) as answer:
        assert answer.status == 200
        return await answer.read(1_000_000)


def with_engine(script: Script, test: Callable[[Engine, EnginePool], Awaitable[None]]) -> None:
    async def main() -> None:
        async with engine(script) as (it, pool):
            await test(it, pool)

    run(main)


def test_a_request_is_sent_as_it_was_given() -> None:
    async def test(it: Engine, pool: EnginePool) -> None:
        assert await ask(pool, it.port, b'{"x":1}') == b"onetwo"
        head = f"POST /v1/x HTTP/1.1\r\nhost: 127.0.0.1:{it.port}\r\naccept-encoding: identity\r\n"
        assert it.requests == [(head + 'content-length: 7\r\na: b\r\n\r\n{"x":1}').encode()]

    with_engine(forever, test)


def test_a_connection_is_kept_after_a_whole_answer() -> None:
    async def test(it: Engine, pool: EnginePool) -> None:
        for _ in range(5):
            await ask(pool, it.port)
        assert it.connections == 1

    with_engine(forever, test)


def test_answers_at_once_have_connections_of_their_own() -> None:
    async def test(it: Engine, pool: EnginePool) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(ask, pool, it.port, b"%d" % number * 100_000)
        assert len(it.requests) == 10

    with_engine(forever, test)


def test_a_connection_is_not_kept_longer_than_engines_keep_theirs() -> None:
    async def test(it: Engine, pool: EnginePool) -> None:
        await ask(pool, it.port)
        await trio.sleep(KEEP_IDLE_S + 0.1)
        await ask(pool, it.port)
        assert it.connections == 2

    with_engine(forever, test)


def test_forgetting_an_endpoint_closes_what_was_kept() -> None:
    async def test(it: Engine, pool: EnginePool) -> None:
        await ask(pool, it.port)
        pool.forget(Endpoint("127.0.0.1", it.port))
        await it.hung_up.wait()

    with_engine(forever, test)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nonetwo",
        b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\nonetwo",
    ],
)
def test_a_connection_the_engine_will_close_is_not_kept(answer: bytes) -> None:
    async def test(it: Engine, pool: EnginePool) -> None:
        for _ in range(2):
            assert await ask(pool, it.port) == b"onetwo"
        assert it.connections == 2

    with_engine(says(answer, answer), test)


def test_an_answer_without_framing_ends_with_its_connection() -> None:
    async def test(it: Engine, pool: EnginePool) -> None:
        assert await ask(pool, it.port) == b"onetwo"

    with_engine(says(b"HTTP/1.1 200 OK\r\n\r\nonetwo"), test)


def test_a_connection_closed_while_idle_is_replaced() -> None:
    async def test(it: Engine, pool: EnginePool) -> None:
        for _ in range(3):
            assert await ask(pool, it.port) == b"onetwo"
            await trio.sleep(0.1)
        assert it.connections == 3

    with_engine(says(WHOLE), test)


def test_a_connection_closed_in_the_moment_of_asking_is_replaced_once() -> None:
    async def script(it: Engine, stream: trio.SocketStream) -> None:
        await it.request(stream)
        if it.connections == 1:
            await stream.send_all(WHOLE)
        await it.request(stream) if it.connections == 1 else await stream.send_all(WHOLE)

    async def test(it: Engine, pool: EnginePool) -> None:
        await ask(pool, it.port)
        assert await ask(pool, it.port) == b"onetwo"  # read whole on the kept connection, which then closed
        assert (it.connections, len(it.requests)) == (2, 3)

    with_engine(script, test)


def test_a_fresh_connection_that_closes_without_an_answer_is_not_tried_again() -> None:
    async def test(it: Engine, pool: EnginePool) -> None:
        with pytest.raises(UpstreamBroken) as broken:
            await ask(pool, it.port)
        assert broken.value.before_first_byte
        assert it.connections == 1

    with_engine(says(b""), test)


def test_a_kept_connection_that_began_to_answer_is_not_tried_again() -> None:
    async def test(it: Engine, pool: EnginePool) -> None:
        await ask(pool, it.port)
        with pytest.raises(UpstreamBroken):
            await ask(pool, it.port)
        assert it.connections == 1

    with_engine(says(WHOLE, b"HTTP/1.1 2"), test)


def test_leaving_early_hangs_up_at_once() -> None:
    async def endless(it: Engine, stream: trio.SocketStream) -> None:
        await it.request(stream)
        await stream.send_all(HEAD + b"3\r\none\r\n")
        await it.request(stream)

    async def test(it: Engine, pool: EnginePool) -> None:
        began = trio.current_time()
        async with pool.request(Endpoint("127.0.0.1", it.port), "POST", "/", [], b"", PATIENCE) as answer:
            async with aclosing(answer.chunks()) as chunks:
                async for chunk in chunks:
                    assert chunk == b"one"
                    break
        await it.hung_up.wait()
        assert trio.current_time() - began < 1

    with_engine(endless, test)


@pytest.mark.parametrize("begun", [b"", HEAD, HEAD + b"3\r\none\r\n"])
def test_a_cancelled_caller_hangs_up_in_every_phase(begun: bytes) -> None:
    async def silent(it: Engine, stream: trio.SocketStream) -> None:
        await it.request(stream)
        await stream.send_all(begun)
        await it.request(stream)

    async def test(it: Engine, pool: EnginePool) -> None:
        with trio.move_on_after(1):
            await ask(pool, it.port)
        began = trio.current_time()
        await it.hung_up.wait()
        assert trio.current_time() - began < 1

    with_engine(silent, test)


@pytest.mark.parametrize(
    ("answer", "before_first_byte"),
    [
        (b"SSH-2.0\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", False),
        (HEAD + b"3\r\none\r\n", False),
        (HEAD + b"3\r\none\r\nzz\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", True),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, True),
        (b"HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", True),
    ],
)
def test_an_answer_that_breaks_is_told_with_its_phase(answer: bytes, before_first_byte: bool) -> None:
    async def test(it: Engine, pool: EnginePool) -> None:
        with pytest.raises(UpstreamBroken) as broken:
            await ask(pool, it.port)
        assert broken.value.before_first_byte is before_first_byte
        assert "127.0.0.1" not in broken.value.reason

    with_engine(says(answer), test)


def test_broken_framing_of_one_engine_leaves_its_neighbours_streams_alone() -> None:
    async def script(it: Engine, stream: trio.SocketStream) -> None:
        asked = await it.request(stream)
        await stream.send_all(HEAD + b"3\r\none\r\n")
        await trio.sleep(5)
        await stream.send_all(b"zz\r\n" if asked.endswith(b"bad") else b"3\r\ntwo\r\n0\r\n\r\n")

    async def test(it: Engine, pool: EnginePool) -> None:
        broke: list[UpstreamError] = []

        async def bad() -> None:
            try:
                await ask(pool, it.port, b"bad")
            except UpstreamBroken as error:
                broke.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(bad)
            assert await ask(pool, it.port, b"good") == b"onetwo"
        assert not broke[0].before_first_byte

    with_engine(script, test)


@pytest.mark.parametrize(
    ("begun", "error", "after_s"),
    [
        (b"", FirstByteTimeout, 600),
        (HEAD, FirstByteTimeout, 600),
        (HEAD + b"3\r\none\r\n", IdleTimeout, 120),
    ],
)
def test_a_hung_engine_is_left_after_the_deadline_of_its_phase(
    begun: bytes, error: type[UpstreamError], after_s: float
) -> None:
    async def hang(it: Engine, stream: trio.SocketStream) -> None:
        await it.request(stream)
        await stream.send_all(begun)
        await it.request(stream)

    async def test(it: Engine, pool: EnginePool) -> None:
        began = trio.current_time()
        with pytest.raises(error) as raised:
            await ask(pool, it.port)
        assert after_s - 1 < trio.current_time() - began < after_s + 1
        assert raised.value.before_first_byte is (error is FirstByteTimeout)
        await it.hung_up.wait()

    with_engine(hang, test)


def test_an_engine_that_takes_no_more_of_the_request_is_left() -> None:
    async def deaf(it: Engine, stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async def test(it: Engine, pool: EnginePool) -> None:
        with pytest.raises(FirstByteTimeout):
            await ask(pool, it.port, b"x" * 30_000_000)

    with_engine(deaf, test)


def test_an_engine_that_refuses_a_large_request_early_is_heard() -> None:
    async def curt(it: Engine, stream: trio.SocketStream) -> None:
        await stream.receive_some(100)
        await stream.send_all(b"HTTP/1.1 413 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
        await stream.send_eof()
        while await stream.receive_some(65_536):
            pass

    async def test(it: Engine, pool: EnginePool) -> None:
        endpoint = Endpoint("127.0.0.1", it.port)
        async with pool.request(endpoint, "POST", "/", [], b"x" * 3_000_000, PATIENCE) as answer:
            assert (answer.status, await answer.read(10)) == (413, b"no")

    with_engine(curt, test)


def test_nobody_listening_is_a_failed_connect() -> None:
    async def main() -> None:
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        port = listener.socket.getsockname()[1]
        await listener.aclose()
        async with EnginePool() as pool:
            with pytest.raises(ConnectFailed) as failed:
                await ask(pool, port)
            assert failed.value.before_first_byte

    run(main)


def test_an_answer_larger_than_wanted_is_refused() -> None:
    async def flood(it: Engine, stream: trio.SocketStream) -> None:
        await it.request(stream)
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await stream.send_all(b"x" * 65_536)

    async def test(it: Engine, pool: EnginePool) -> None:
        with pytest.raises(UpstreamBroken, match="larger than 1000000"):
            await ask(pool, it.port)
        await it.hung_up.wait()

    with_engine(flood, test)


async def collect(answer: EngineAnswer) -> list[bytes]:
    return [chunk async for chunk in answer.chunks()]


def through(script: Script, toxics: Toxics, test: Callable[[ToxicProxy, EnginePool], Awaitable[None]]) -> None:
    async def main() -> None:
        async with engine(script) as (it, pool):
            async with ToxicProxy(it.port).running() as proxy:
                proxy.set(toxics)
                await test(proxy, pool)

    run(main)


def test_bytes_that_come_one_at_a_time_arrive_whole() -> None:
    async def test(proxy: ToxicProxy, pool: EnginePool) -> None:
        assert await ask(pool, proxy.port) == b"onetwo"

    through(forever, Toxics(piece_bytes=1, delay_s=0.01), test)


def test_an_answer_cut_at_every_byte_is_never_whole() -> None:
    async def test(proxy: ToxicProxy, pool: EnginePool) -> None:
        for cut in range(len(WHOLE)):
            proxy.set(Toxics(cut_after_bytes=cut))
            with pytest.raises(UpstreamBroken):
                await ask(pool, proxy.port)

    through(forever, Toxics(), test)


def test_a_network_that_swallows_everything_ends_at_the_first_byte_deadline() -> None:
    async def test(proxy: ToxicProxy, pool: EnginePool) -> None:
        with pytest.raises(FirstByteTimeout):
            await ask(pool, proxy.port)

    through(forever, Toxics(is_black_hole=True), test)


def test_a_stream_yields_what_each_read_brought() -> None:
    async def two(it: Engine, stream: trio.SocketStream) -> None:
        await it.request(stream)
        await stream.send_all(HEAD + b"1\r\na\r\n1\r\nb\r\n")
        await trio.sleep(1)
        await stream.send_all(b"1\r\nc\r\n0\r\n\r\n")

    async def test(it: Engine, pool: EnginePool) -> None:
        endpoint: Any = Endpoint("127.0.0.1", it.port)
        async with pool.request(endpoint, "POST", "/", [], b"", PATIENCE) as answer:
            assert await collect(answer) == [b"ab", b"c"]

    with_engine(two, test)
