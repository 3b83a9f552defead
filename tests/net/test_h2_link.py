"""Both halves of the transport: bounds of dialling, what is not HTTP/2, the number of connections."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio

from llmgw.net.h2_link import DialFailed, DialRefused, IncomingLink, LinkFigures, dial, serve_links
from llmgw.net.h2_stream import StreamBroken
from llmgw.net.tls_contexts import client_context, server_context
from tests.control.link_rig import QUICK, papers, raw_client, until

PATH = "/agent/v1/connect"


@asynccontextmanager
async def _port(
    on_link: Callable[[IncomingLink], Awaitable[None]],
    problems: list[str],
    *,
    is_tls: bool = False,
    **figures: Any,
) -> AsyncIterator[int]:
    files = papers().server
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            await serve_links(
                listeners,
                on_link,
                tls=server_context(files.ca, files.cert, files.key) if is_tls else None,
                figures=replace(QUICK, **figures),
                on_problem=lambda _, words: problems.append(words),
            )

        nursery.start_soon(serve)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def _echo(incoming: IncomingLink) -> None:
    incoming.accept()
    while (document := await incoming.stream.receive_document()) is not None:
        await incoming.stream.send_document(document)


def test_documents_cross_both_ways_in_clear_and_under_tls() -> None:
    async def main() -> None:
        files = papers().nodes["n1"]
        for tls in (None, client_context(files.ca, files.cert, files.key)):
            async with _port(_echo, [], is_tls=tls is not None) as port:
                async with dial("127.0.0.1", port, tls, PATH, [], QUICK) as stream:
                    for document in (b"", b"a", b"b" * 500_000):
                        async with trio.open_nursery() as nursery:
                            nursery.start_soon(stream.send_document, document)
                            assert await stream.receive_document() == document
                    stream.end()
                    assert await stream.receive_document() is None

    trio.run(main)


def test_who_dialled_is_told_from_the_certificate() -> None:
    seen: list[IncomingLink] = []

    async def note(incoming: IncomingLink) -> None:
        seen.append(incoming)
        await incoming.refuse(418, "no tea", [("llmgw-leader", "cp-2")])

    async def main() -> None:
        files = papers().nodes["n2"]
        tls = client_context(files.ca, files.cert, files.key)
        async with _port(note, [], is_tls=True) as port:
            with pytest.raises(DialRefused) as refused:
                async with dial("127.0.0.1", port, tls, PATH + "?x=1", [("llmgw-node", "n2")], QUICK):
                    pass
        assert (refused.value.status, refused.value.words, refused.value.leader) == (418, "no tea", "cp-2")
        assert (seen[0].common_name, seen[0].peer_address, seen[0].path) == ("n2", "127.0.0.1", PATH)
        assert seen[0].headers["llmgw-node"] == "n2"
        assert seen[0].issued_unix > 1.6e9

    trio.run(main)


def test_a_machine_that_is_not_there_is_said_in_the_kernels_words() -> None:
    async def main() -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        await listeners[0].aclose()
        with pytest.raises(DialFailed, match="efused"):
            async with dial("127.0.0.1", port, None, PATH, [], QUICK):
                pass

    trio.run(main)


def test_a_server_that_accepts_and_says_nothing_is_given_up() -> None:
    async def main() -> None:
        async def silent(_: trio.SocketStream) -> None:
            await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, silent, listeners)
            port = listeners[0].socket.getsockname()[1]
            figures = LinkFigures(answer_s=0.1)
            with pytest.raises(DialFailed, match=r"no answer within 0\.1 s"):
                async with dial("127.0.0.1", port, None, PATH, [], figures):
                    pass
            files = papers().nodes["n1"]
            tls = client_context(files.ca, files.cert, files.key)
            with pytest.raises(DialFailed, match=r"no connection within 0\.1 s"):
                async with dial("127.0.0.1", port, tls, PATH, [], LinkFigures(dial_s=0.1)):
                    pass
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_server_of_another_protocol_is_said_so() -> None:
    async def main() -> None:
        async def http1(stream: trio.SocketStream) -> None:
            await stream.receive_some(9999)
            await stream.send_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, http1, listeners)
            with pytest.raises(DialFailed):
                async with dial("127.0.0.1", listeners[0].socket.getsockname()[1], None, PATH, [], QUICK):
                    pass
            nursery.cancel_scope.cancel()

    trio.run(main)


@pytest.mark.covers("P-5")
def test_a_tls_server_without_alpn_is_not_taken_for_a_control_plane() -> None:
    async def main() -> None:
        files = papers().server
        bare = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        bare.load_cert_chain(files.cert, files.key)

        async def silent(_: trio.SSLStream[trio.SocketStream]) -> None:
            await _.do_handshake()
            await trio.sleep_forever()

        async with trio.open_nursery() as nursery:
            listeners = await trio.open_ssl_over_tcp_listeners(0, bare, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, silent, listeners)
            port = listeners[0].transport_listener.socket.getsockname()[1]
            node = papers().nodes["n1"]
            with pytest.raises(DialFailed, match="no ALPN h2"):
                async with dial(
                    "127.0.0.1", port, client_context(node.ca, node.cert, node.key), PATH, [], QUICK
                ):
                    pass
            nursery.cancel_scope.cancel()

    trio.run(main)


@pytest.mark.covers("P-2")
def test_http1_in_clear_is_answered_505() -> None:
    async def main() -> None:
        problems: list[str] = []
        async with _port(_echo, problems) as port:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            answer = b""
            while data := await stream.receive_some(9999):
                answer += data
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 505 ")
            assert f"content-length: {len(body)}".encode() in head
            await stream.aclose()
        assert problems == ["refused: it does not speak HTTP/2"]

    trio.run(main)


@pytest.mark.parametrize("is_tls", [True, False])
def test_a_connection_that_never_begins_is_closed(is_tls: bool) -> None:
    async def main() -> None:
        problems: list[str] = []
        async with _port(_echo, problems, is_tls=is_tls, handshake_s=0.1) as port:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            with trio.fail_after(5):
                assert await stream.receive_some(1) == b""
            assert problems == ["closed: it did not begin HTTP/2 within 0.1 s"]

    trio.run(main)


@pytest.mark.covers("P-14", "X-31")
def test_connections_beyond_the_bound_are_closed_and_one_that_leaves_makes_room() -> None:
    async def main() -> None:
        problems: list[str] = []
        async with _port(_echo, problems, max_connections=1) as port:
            async with dial("127.0.0.1", port, None, PATH, [], QUICK):
                with pytest.raises(DialFailed):
                    async with dial("127.0.0.1", port, None, PATH, [], QUICK):
                        pass
                assert problems == ["closed: 1 agent connections are open already"]
            with trio.fail_after(5):
                while True:
                    try:
                        async with dial("127.0.0.1", port, None, PATH, [], QUICK):
                            return
                    except DialFailed:
                        await trio.sleep(0.01)

    trio.run(main)


def test_leaving_the_block_ends_the_stream_at_the_other_side() -> None:
    ended: list[str] = []

    async def note(incoming: IncomingLink) -> None:
        incoming.accept()
        try:
            await incoming.stream.receive_document()
        except StreamBroken as broken:
            ended.append(broken.reason)

    async def main() -> None:
        async with _port(note, []) as port:
            async with dial("127.0.0.1", port, None, PATH, [], QUICK):
                pass
            await until(lambda: ended)
            # A stream that breaks inside the block is let out as such.
            with pytest.raises(StreamBroken):
                async with dial("127.0.0.1", port, None, PATH, [], QUICK) as stream:
                    stream.reset(8)
                    await stream.send_document(b"x")

    trio.run(main)


def test_a_fault_in_one_request_is_told_and_the_port_serves_on() -> None:
    async def faulty(incoming: IncomingLink) -> None:
        if incoming.path == "/fault":
            raise ZeroDivisionError
        await _echo(incoming)

    async def main() -> None:
        problems: list[str] = []
        async with _port(faulty, problems) as port:
            with pytest.raises(DialFailed):
                async with dial("127.0.0.1", port, None, "/fault", [], QUICK):
                    pass
            await until(lambda: problems)
            assert "fault of ours" in problems[0]
            async with dial("127.0.0.1", port, None, PATH, [], QUICK) as stream:
                await stream.send_document(b"still here")
                assert await stream.receive_document() == b"still here"

    trio.run(main)


def test_streams_of_one_connection_are_answered_each_for_itself() -> None:
    async def by_path(incoming: IncomingLink) -> None:
        await incoming.refuse(404 if incoming.path == "/a" else 503, "no")

    async def main() -> None:
        async with _port(by_path, []) as port, raw_client(port, None) as client:
            await client.request(path="/a")
            await client.answer()
            assert client.status == 404
            client.is_ended = False
            await client.request(path="/b")
            await client.answer()
            assert client.status == 503

    trio.run(main)
