from __future__ import annotations

import pytest
import trio

from llmgw.net.asgi_server import AsgiServer


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


async def ask(port: int) -> bytes:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return b"".join([chunk async for chunk in stream])


@pytest.mark.covers("X-31")
def test_a_connection_beyond_the_bound_is_closed_at_accept():
    async def main() -> None:
        faults: list[BaseException] = []
        server = AsgiServer(hello, max_connections=2, on_fault=faults.append)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                await nursery.start(server.serve, listeners)
                idle = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(2)]
                while server.open_connections < 2:
                    await trio.lowlevel.checkpoint()
                async with await trio.open_tcp_stream("127.0.0.1", port) as third:
                    assert await third.receive_some() == b""
                await idle[0].aclose()
                while server.open_connections > 1:
                    await trio.lowlevel.checkpoint()
                assert (await ask(port)).endswith(b"hello")
                await idle[1].aclose()
                nursery.cancel_scope.cancel()
        assert faults == []

    trio.run(main)


def test_an_answer_under_way_is_finished_when_the_server_is_cancelled():
    async def main() -> None:
        asked, finish = trio.Event(), trio.Event()

        async def slow(scope, receive, send):
            asked.set()
            await finish.wait()
            await hello(scope, receive, send)

        server = AsgiServer(slow, max_connections=2, on_fault=lambda fault: None)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port, answers = listeners[0].socket.getsockname()[1], []

        async def client() -> None:
            answers.append(await ask(port))

        with trio.fail_after(20):
            async with trio.open_nursery() as outer:
                outer.start_soon(client)
                async with trio.open_nursery() as nursery:
                    await nursery.start(server.serve, listeners)
                    await asked.wait()
                    nursery.cancel_scope.cancel()
                    finish.set()
        assert answers[0].endswith(b"hello")

    trio.run(main)


def test_a_request_that_hangs_does_not_outlive_the_grace():
    async def main() -> None:
        asked = trio.Event()

        async def hangs(scope, receive, send):
            asked.set()
            await trio.sleep_forever()

        server = AsgiServer(hangs, max_connections=2, on_fault=lambda fault: None, grace_s=0.1)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        stream = await trio.open_tcp_stream("127.0.0.1", listeners[0].socket.getsockname()[1])
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                await nursery.start(server.serve, listeners)
                await stream.send_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                await asked.wait()
                nursery.cancel_scope.cancel()
        assert server.open_connections == 0

    trio.run(main)


def test_a_client_that_leaves_in_any_phase_does_not_disturb_the_next():
    async def main() -> None:
        faults: list[BaseException] = []
        server = AsgiServer(hello, max_connections=50, on_fault=faults.append)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        whole = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n12345"
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                await nursery.start(server.serve, listeners)
                for length in range(0, len(whole) + 1, 6):
                    stream = await trio.open_tcp_stream("127.0.0.1", port)
                    await stream.send_all(whole[:length])
                    await stream.aclose()
                for rubbish in (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"\r\n" * 5000, b"G" * 70000):
                    stream = await trio.open_tcp_stream("127.0.0.1", port)
                    try:
                        await stream.send_all(rubbish)
                    except trio.BrokenResourceError:
                        pass
                    await stream.aclose()
                assert (await ask(port)).endswith(b"hello")
                nursery.cancel_scope.cancel()

    trio.run(main)
