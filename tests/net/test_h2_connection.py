"""One HTTP/2 connection on a clock that jumps: silence, idleness, limits, back-pressure, hostile bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.net.h2_connection import H2Connection, Keepalive, StreamLimits
from llmgw.net.h2_link import LinkFigures
from llmgw.net.h2_stream import H2Stream, StreamBroken

REQUEST = [(":method", "POST"), (":scheme", "http"), (":authority", "cp"), (":path", "/x")]


def _run(main: Callable[[], Awaitable[None]]) -> None:
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@asynccontextmanager
async def _connected(
    *, is_client: bool = False, limits: StreamLimits | None = None
) -> AsyncIterator[tuple[H2Connection, _Peer, list[H2Stream]]]:
    """Give a connection of ours over memory, with the figures in force, the peer, and the requests that came."""
    ours, theirs = trio.testing.memory_stream_pair()
    requests: list[H2Stream] = []
    connection = H2Connection(
        ours,
        is_client=is_client,
        keepalive=Keepalive(),
        limits=limits or StreamLimits(idle_s=None if is_client else 10.0),
        on_request=None if is_client else requests.append,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        yield connection, _Peer(theirs, is_client=not is_client), requests
        connection.end("the test is over")


class _Peer:
    """The other side, h2 alone."""

    def __init__(self, stream: trio.abc.Stream, *, is_client: bool) -> None:
        self.stream = stream
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=is_client))
        self.h2.initiate_connection()
        self.events: list[h2.events.Event] = []

    async def flush(self) -> None:
        await self.stream.send_all(self.h2.data_to_send())

    async def request(self) -> int:
        stream_id = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream_id, REQUEST)
        await self.flush()
        return stream_id

    async def read(self) -> bool:
        """Take what arrived; False at the end."""
        data = await self.stream.receive_some(65_536)
        if data:
            self.events += self.h2.receive_data(bytes(data))
        return bool(data)

    async def answer_pings(self) -> None:
        while await self.read():
            await self.flush()

    def saw(self, kind: type[h2.events.Event]) -> list[h2.events.Event]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.mark.covers("P-12")
@pytest.mark.parametrize("is_client", [True, False])
def test_a_silent_peer_is_pinged_after_ten_seconds_and_given_up_five_later(is_client: bool) -> None:
    async def main() -> None:
        # With requests open at the serving side, so that idleness plays no part.
        async with _connected(is_client=is_client) as (connection, peer, _):
            stream = connection.open_stream(REQUEST) if is_client else None
            if not is_client:
                await peer.request()
            await peer.flush()
            await trio.testing.wait_all_tasks_blocked()
            began_s = trio.current_time()
            await trio.sleep(14.99)
            assert connection.reason is None
            while not peer.saw(h2.events.PingReceived):
                await peer.read()
            await trio.sleep(0.02)
            assert connection.reason is not None
            assert "nothing was heard for 10 s" in connection.reason
            assert trio.current_time() - began_s <= 15.1
            if stream is not None:
                with pytest.raises(StreamBroken, match="nothing was heard"):
                    await stream.receive_some()

    _run(main)


@pytest.mark.parametrize("is_client", [True, False])
def test_a_peer_that_answers_pings_is_kept_for_as_long_as_it_does(is_client: bool) -> None:
    async def main() -> None:
        async with _connected(is_client=is_client) as (connection, peer, _):
            if is_client:
                connection.open_stream(REQUEST)
            else:
                await peer.request()
            await peer.flush()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(peer.answer_pings)
                await trio.sleep(3_600)
                assert connection.reason is None
                nursery.cancel_scope.cancel()

    _run(main)


@pytest.mark.covers("P-14")
def test_the_listeners_limits_hold() -> None:
    async def idle() -> None:
        async with _connected() as (connection, peer, _):
            await peer.flush()
            began_s = trio.current_time()
            while await peer.read():
                pass
            assert trio.current_time() - began_s == pytest.approx(10.0)
            assert peer.saw(h2.events.ConnectionTerminated)
            assert connection.reason is not None

    async def idle_again_after_a_request() -> None:
        async with _connected() as (_, peer, requests):
            stream_id = await peer.request()
            await trio.testing.wait_all_tasks_blocked()
            requests[0].start([(":status", "204")], end=True)
            peer.h2.end_stream(stream_id)
            await peer.flush()
            await trio.testing.wait_all_tasks_blocked()
            began_s = trio.current_time()
            while await peer.read():
                pass
            assert 10.0 <= trio.current_time() - began_s <= 20.0

    async def streams() -> None:
        async with _connected() as (connection, peer, requests):
            await peer.flush()
            await peer.read()
            assert peer.h2.remote_settings.max_concurrent_streams == 4
            assert peer.h2.remote_settings[h2.settings.SettingCodes.MAX_HEADER_LIST_SIZE] == 16_384
            for _ in range(4):
                await peer.request()
            await trio.testing.wait_all_tasks_blocked()
            assert (len(requests), connection.reason) == (4, None)
            peer.h2.remote_settings.max_concurrent_streams = 100
            peer.h2.remote_settings.acknowledge()
            await peer.request()
            await trio.testing.wait_all_tasks_blocked()
            assert len(requests) == 4
            assert connection.reason is not None

    async def headers() -> None:
        async with _connected() as (connection, peer, requests):
            peer.h2.send_headers(1, [*REQUEST, ("x-a", "a" * 9_000), ("x-b", "b" * 9_000)])
            await peer.flush()
            await trio.testing.wait_all_tasks_blocked()
            assert requests == []
            assert connection.reason is not None

    for part in (idle, idle_again_after_a_request, streams, headers):
        _run(part)
    assert StreamLimits() == StreamLimits(max_streams=4, max_header_bytes=16_384, idle_s=10.0)
    assert LinkFigures().max_connections == 4096  # proven with a smaller figure in test_h2_link.py


@pytest.mark.covers("P-15")
def test_the_window_opens_only_as_the_reader_takes_what_came() -> None:
    async def main() -> None:
        async with _connected() as (connection, peer, requests):
            stream_id = await peer.request()
            await trio.testing.wait_all_tasks_blocked()
            sent = 0
            while room := min(peer.h2.local_flow_control_window(stream_id), 16_384):
                peer.h2.send_data(stream_id, bytes(room))
                sent += room
            await peer.flush()
            assert sent == 65_535
            # A reader that takes nothing: the peer hears of no window, however long it asks.
            with trio.move_on_after(9):
                while True:
                    await peer.read()
            assert not peer.saw(h2.events.WindowUpdated)
            assert peer.h2.local_flow_control_window(stream_id) == 0
            assert connection.reason is None
            taken = 0
            while taken < sent:
                taken += len(await requests[0].receive_some() or b"")
            while peer.h2.local_flow_control_window(stream_id) == 0:
                await peer.read()
            assert peer.h2.local_flow_control_window(stream_id) >= 32_768

    _run(main)


def test_a_sender_waits_for_the_peers_window_and_queues_no_more() -> None:
    async def main() -> None:
        async with _connected() as (_, peer, requests):
            stream_id = await peer.request()
            await trio.testing.wait_all_tasks_blocked()
            requests[0].start([(":status", "200")])
            with trio.move_on_after(1) as scope:
                await requests[0].send(bytes(200_000))
            assert scope.cancelled_caught
            with trio.move_on_after(1):
                while await peer.read():
                    pass
            received = sum(len(event.data) for event in peer.saw(h2.events.DataReceived))  # type: ignore[attr-defined]
            assert received == 65_535
            # A message that was cut cannot be followed by another: the stream is reset instead of ended.
            with pytest.raises(StreamBroken):
                await requests[0].send(b"more")
            requests[0].end()
            while not peer.saw(h2.events.StreamReset):
                await peer.read()
            assert peer.saw(h2.events.StreamReset)[0].stream_id == stream_id  # type: ignore[attr-defined]

    _run(main)


def test_a_peer_that_floods_pings_and_reads_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmgw.net.h2_connection.UNREAD_LIMIT_BYTES", 65_536)

    async def main() -> None:
        ours, theirs = trio.testing.memory_stream_pair()

        async def stuck() -> None:
            await trio.sleep_forever()

        ours.send_stream.send_all_hook = stuck
        connection = H2Connection(ours, is_client=False, keepalive=Keepalive(), limits=StreamLimits())
        peer = _Peer(theirs, is_client=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.run)
            await peer.flush()
            for _ in range(5_000):
                peer.h2.ping(b"12345678")
            await theirs.send_all(peer.h2.data_to_send())
            await trio.sleep(1)
            assert connection.reason == "the peer sends without reading"

    _run(main)


def test_what_arrived_before_the_end_is_still_read() -> None:
    async def main() -> None:
        async with _connected(is_client=True) as (connection, peer, _):
            stream = connection.open_stream(REQUEST)
            await trio.testing.wait_all_tasks_blocked()
            await peer.flush()
            await peer.read()
            peer.h2.send_headers(1, [(":status", "200")])
            peer.h2.send_data(1, b"last words", end_stream=True)
            peer.h2.close_connection()
            await peer.flush()
            await peer.stream.aclose()
            await trio.testing.wait_all_tasks_blocked()
            assert connection.reason == "the peer ended the connection with NO_ERROR"
            assert await stream.receive_some() == b"last words"
            assert await stream.receive_some() is None

    _run(main)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.binary(min_size=1, max_size=8)), max_size=6),
    st.binary(max_size=200),
)
def test_hostile_bytes_end_the_connection_and_nothing_else(
    mutations: list[tuple[int, bytes]], tail: bytes
) -> None:
    async def main() -> None:
        async with _connected() as (connection, peer, _):
            stream_id = await peer.request()
            peer.h2.send_data(stream_id, bytes(50))
            peer.h2.ping(b"12345678")
            data = bytearray(peer.h2.data_to_send() + tail)
            for at, replacement in mutations:
                data[at : at + len(replacement)] = replacement
            await peer.stream.send_all(bytes(data))
            await trio.testing.wait_all_tasks_blocked()
            await peer.stream.aclose()
            await trio.testing.wait_all_tasks_blocked()
            assert connection.reason is not None

    _run(main)
