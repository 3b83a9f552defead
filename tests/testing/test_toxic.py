import pytest
import trio

from llmgw.testing.toxic import ToxicProxy, Toxics
from tests.net.client_listener import run


async def echo(stream: trio.SocketStream) -> None:
    async with stream:
        try:
            while data := await stream.receive_some(65_536):
                await stream.send_all(data)
        except trio.BrokenResourceError:
            return


def behind_a_proxy(test: object, toxics: Toxics = Toxics()) -> None:
    async def main() -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, echo, listeners)
            async with ToxicProxy(listeners[0].socket.getsockname()[1]).running() as proxy:
                proxy.set(toxics)
                await test(proxy)  # type: ignore[operator]
            nursery.cancel_scope.cancel()

    run(main)


async def read(stream: trio.SocketStream, size: int) -> bytes:
    got = b""
    while len(got) < size and (data := await stream.receive_some(size)):
        got += data
    return got


def test_without_toxics_bytes_pass_and_an_end_passes() -> None:
    async def test(proxy: ToxicProxy) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", proxy.port)
        await stream.send_all(b"x" * 300_000)
        assert await read(stream, 300_000) == b"x" * 300_000
        await stream.send_eof()
        assert await stream.receive_some(1) == b""

    behind_a_proxy(test)


def test_pieces_come_one_by_one_with_their_delay() -> None:
    async def test(proxy: ToxicProxy) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", proxy.port)
        began = trio.current_time()
        await stream.send_all(b"abcd")
        assert [await stream.receive_some(10) for _ in range(2)] == [b"ab", b"cd"]
        assert 1.9 < trio.current_time() - began < 2.1

    behind_a_proxy(test, Toxics(delay_s=1, piece_bytes=2))


def test_a_cut_is_a_reset_behind_its_byte() -> None:
    async def test(proxy: ToxicProxy) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", proxy.port)
        await stream.send_all(b"abcdef")
        got = b""
        with pytest.raises(trio.BrokenResourceError):
            while True:
                got += await stream.receive_some(10)
        assert len(got) <= 3

    behind_a_proxy(test, Toxics(cut_after_bytes=3))


def test_a_black_hole_swallows_until_it_is_lifted() -> None:
    async def test(proxy: ToxicProxy) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", proxy.port)
        await stream.send_all(b"a")
        with trio.move_on_after(60) as waited:
            await stream.receive_some(1)
        assert waited.cancelled_caught
        proxy.set(Toxics())
        assert await stream.receive_some(1) == b"a"

    behind_a_proxy(test, Toxics(is_black_hole=True))


def test_a_refusing_proxy_and_a_cut_of_all_reset_connections() -> None:
    async def test(proxy: ToxicProxy) -> None:
        open_one = await trio.open_tcp_stream("127.0.0.1", proxy.port)
        await open_one.send_all(b"a")
        assert await open_one.receive_some(1) == b"a"
        proxy.set(Toxics(is_refusing=True))
        refused = await trio.open_tcp_stream("127.0.0.1", proxy.port)
        with pytest.raises(trio.BrokenResourceError):
            await refused.receive_some(1)
        proxy.cut_all()
        with pytest.raises(trio.BrokenResourceError):
            await open_one.receive_some(1)

    behind_a_proxy(test)
