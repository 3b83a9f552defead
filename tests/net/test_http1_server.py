import contextlib

import pytest
import trio

from llmgw.agent.bind_address import own_addresses
from llmgw.net.http1_server import Http1Server
from llmgw.net.http_message import Request, Responder
from llmgw.net.limits import ListenerLimits
from llmgw.net.listeners import open_listeners
from tests.net.client_listener import Site, Wire, echo, on_fault, run, serving

ELSEWHERE = sorted(address for address in own_addresses() if "." in address and not address.startswith("127."))
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def slow(request: Request, responder: Responder) -> None:
    await responder.start(200, [])
    await responder.write(b"one")
    await trio.sleep(10)
    await responder.write(b"two")
    await responder.end()


async def connected(site: Site) -> Wire:
    """Connect and see that the connection is served."""
    wire = await site.connect()
    await wire.send(GET)
    assert (await wire.answer())[0] == 200
    return wire


async def is_closed(wire: Wire) -> bool:
    try:
        return await wire.stream.receive_some(1) == b""
    except trio.BrokenResourceError:
        return True


@pytest.mark.covers("X-31")
def test_connections_beyond_the_bound_are_closed_at_accept_and_room_is_given_back() -> None:
    async def main() -> None:
        async with serving(max_connections=2) as site:
            first, _ = await connected(site), await connected(site)
            assert await is_closed(await site.connect())
            assert (site.server.connections, site.server.refused_total) == (2, 1)
            await first.stream.aclose()
            await site.settle()
            await connected(site)

    run(main)


@pytest.mark.covers("X-31")
def test_loopback_is_exempt_from_the_bound_of_one_address() -> None:
    async def main() -> None:
        async with serving(per_address=1) as site:
            wires = [await connected(site) for _ in range(3)]
            assert len(wires) == 3
            assert site.server.connections == 3

    run(main)


@pytest.mark.covers("X-31")
@pytest.mark.skipif(not ELSEWHERE, reason="this machine has no address but loopback")
def test_one_address_has_a_bound_of_its_own_unless_it_is_a_trusted_proxy() -> None:
    async def main(trusted: tuple[str, ...]) -> list[bool]:
        limits = ListenerLimits(per_address=2, trusted=trusted)
        server = Http1Server(echo, limits, on_fault)
        listeners = await open_listeners(f"{ELSEWHERE[0]}:0")
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, listeners)
            port = listeners[0].socket.getsockname()[1]
            wires = [Wire(await trio.open_tcp_stream(ELSEWHERE[0], port)) for _ in range(2)]
            for wire in wires:
                await wire.send(GET)
                assert (await wire.answer())[0] == 200
            third = Wire(await trio.open_tcp_stream(ELSEWHERE[0], port))
            with contextlib.suppress(trio.BrokenResourceError):
                await third.send(GET)
            closed = await is_closed(third)
            nursery.cancel_scope.cancel()
        return [closed]

    assert trio.run(main, ()) == [True]
    assert trio.run(main, (ELSEWHERE[0],)) == [False]


def test_a_stop_closes_what_is_idle_and_lets_running_answers_finish() -> None:
    async def main() -> None:
        async with serving(slow) as site:
            idle, busy = await site.connect(), await site.connect()
            await busy.send(GET)
            await busy.until(b"one\r\n")
            cut: list[int] = []

            async def drain() -> None:
                cut.append(await site.server.drain(30))

            site.nursery.start_soon(drain)
            assert await is_closed(idle)
            with pytest.raises(OSError):
                await trio.open_tcp_stream("127.0.0.1", site.port)
            assert (await busy.rest()).endswith(b"3\r\ntwo\r\n0\r\n\r\n")
            await site.served.wait()
            assert cut == [0]

    run(main)


def test_what_outlasts_the_grace_is_cut_and_counted() -> None:
    async def main() -> None:
        async with serving(slow) as site:
            wire = await site.connect()
            await wire.send(GET)
            await wire.until(b"one\r\n")
            began = trio.current_time()
            assert await site.server.drain(3) == 1
            assert 2.9 < trio.current_time() - began < 3.5
            await site.served.wait()
            assert await is_closed(wire)

    run(main)


def test_a_request_half_sent_at_the_stop_is_answered_and_told_to_close() -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            await wire.send(GET[:10])
            await site.settle()
            site.server.stop_accepting()
            await wire.send(GET[10:])
            status, head, _ = await wire.answer()
            assert (status, "connection: close" in head) == (200, True)
            await site.served.wait()

    run(main)
