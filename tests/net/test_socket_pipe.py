from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from llmgw.net.socket_pipe import SocketPipe, WriteStalled
from tests.net.client_listener import run


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[SocketPipe, trio.SocketStream]]:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    async with listener:
        far = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
        pipe = SocketPipe(await listener.accept())
        async with far:
            yield pipe, far
        pipe.close()


def test_bytes_pass_both_ways_and_an_end_is_empty() -> None:
    async def main() -> None:
        async with pair() as (pipe, far):
            await far.send_all(b"there")
            assert await pipe.read() == b"there"
            await pipe.write_all(b"back", 1)
            assert await far.receive_some(10) == b"back"
            await far.send_eof()
            assert await pipe.read() == b""
            pipe.end_writing()
            assert await far.receive_some(10) == b""

    run(main)


def test_more_than_the_socket_holds_is_written_while_the_other_side_reads() -> None:
    async def main() -> None:
        async with pair() as (pipe, far):
            data = bytes(range(256)) * 80_000
            got = bytearray()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pipe.write_all, data, 60)
                while len(got) < len(data):
                    got += await far.receive_some(65_536)
            assert bytes(got) == data

    run(main)


def test_a_peer_that_takes_nothing_stalls_the_write() -> None:
    async def main() -> None:
        async with pair() as (pipe, _far):
            with pytest.raises(WriteStalled):
                await pipe.write_all(b"x" * 30_000_000, 60)
            assert 59 < trio.current_time() < 62

    run(main)


def test_an_idle_pipe_is_told_from_one_with_bytes_or_an_end() -> None:
    async def main() -> None:
        async with pair() as (pipe, far):
            assert pipe.is_idle()
            assert not pipe.has_hung_up()
            await far.send_all(b"x")
            assert not pipe.is_idle()
            await pipe.read()
            assert pipe.is_idle()
            await far.send_eof()
            assert not pipe.is_idle()
            assert pipe.has_hung_up()
        assert not pipe.is_idle()

    run(main)


def test_an_end_behind_unread_bytes_is_seen() -> None:
    async def main() -> None:
        async with pair() as (pipe, far):
            await far.send_all(b"x" * 1000)
            assert not pipe.has_hung_up()
            await far.aclose()
            assert pipe.has_hung_up()

    run(main)


def test_a_fast_pair_leaves_other_tasks_their_turn() -> None:
    async def main() -> None:
        async with pair() as (pipe, far):
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await trio.lowlevel.checkpoint()

            async def swallow() -> None:
                while await far.receive_some(65_536):
                    pass

            async with trio.open_nursery() as nursery:
                nursery.start_soon(count)
                nursery.start_soon(swallow)
                for _ in range(160):
                    await pipe.write_all(b"x", 1)
                nursery.cancel_scope.cancel()
            assert turns >= 9, "160 calls yield ten times, and the first turn may come before the other task's start"

    run(main, jumps=False)
