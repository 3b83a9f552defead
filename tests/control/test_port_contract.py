"""One script over every implementation of the control port: direct calls, and the same over a socket pair."""

import math
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing

from llmgw.control.port import LocalControl
from llmgw.net.control_pipe import ControlClient, ControlLost, ControlServer
from llmgw.ports import (
    ControlPort,
    GatewaySettings,
    LeaseAsk,
    ModelRoute,
    Principal,
    ReplicaRoute,
    Report,
    StoreUnavailable,
    UsageRow,
)
from llmgw.testing.memory_fleet import MemoryFleet, MemoryKeys, MemoryUsage

PRINCIPAL = Principal("key-1", "project", "ab" * 32, "org", "team", "project", "", models=("a", "b"))
MODEL = ModelRoute("a", "serving", 1, aliases=("x",), adapter_scales=(0.5,), adapters=("l",))
REPLICA = ReplicaRoute("r-1", "a", "cpu", "llamacpp", "127.0.0.1", 20000, "secret", "a", "/metrics")
ROW = UsageRow(
    "u-1", "rid", 12.5, "chat.completions", True, "key-1", "project", "p", "t", "o", "", "a", ttft_ms=None
)


class World:
    """The things behind a port, and the port."""

    def __init__(self) -> None:
        self.fleet = MemoryFleet()
        self.keys = MemoryKeys()
        self.usage = MemoryUsage()
        self.settings = GatewaySettings()
        self.local = LocalControl(self.fleet, self.keys, self.usage, lambda: self.settings)
        self.port: ControlPort = self.local
        self.server: ControlServer | None = None


@asynccontextmanager
async def direct() -> AsyncIterator[World]:
    yield World()


@asynccontextmanager
async def piped() -> AsyncIterator[World]:
    world = World()
    left, right = socket.socketpair()
    async with trio.open_nursery() as nursery:
        here = trio.SocketStream(trio.socket.from_stdlib_socket(left))
        there = trio.SocketStream(trio.socket.from_stdlib_socket(right))
        world.server = ControlServer(there, world.local)
        client = ControlClient(here)
        await nursery.start(world.server.run)
        await nursery.start(client.run)
        world.port = client
        yield world
        nursery.cancel_scope.cancel()


both = pytest.mark.parametrize("opened", [direct, piped])


def played(opened: Callable, script: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        with trio.fail_after(10):
            async with opened() as world:
                await script(world)

    trio.run(main)


@both
def test_the_current_snapshot_comes_at_once(opened):
    async def script(world: World) -> None:
        world.fleet.set([MODEL], [REPLICA])
        snapshot = await world.port.feed(0)
        assert snapshot.models == (MODEL,)
        assert snapshot.replicas == (REPLICA,)
        assert snapshot.version > 0

    played(opened, script)


@both
def test_feed_waits_for_the_next_version(opened):
    async def script(world: World) -> None:
        first = await world.port.feed(0)
        seen = []

        async def wait() -> None:
            seen.append(await world.port.feed(first.version))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert not seen
            world.fleet.set([MODEL], [])
        assert seen[0].version > first.version
        assert seen[0].models == (MODEL,)

    played(opened, script)


@both
@pytest.mark.parametrize("what", ["epoch", "away", "settings", "leading"])
def test_every_other_change_also_makes_a_version(opened, what):
    async def script(world: World) -> None:
        first = await world.port.feed(0)
        if what == "epoch":
            world.keys.epoch_now = 7
        elif what == "away":
            world.keys.is_away = True
        elif what == "settings":
            world.settings = GatewaySettings(max_body_bytes=5)
        else:
            world.fleet.leading = False
        second = await world.port.feed(first.version)
        assert (second.tenancy_epoch, second.store_away, second.settings, second.leading) == (
            world.keys.epoch_now,
            world.keys.is_away,
            world.settings,
            world.fleet.leading,
        )

    played(opened, script)


@both
def test_a_key_is_found_or_not(opened):
    async def script(world: World) -> None:
        world.keys.principals[PRINCIPAL.hash] = PRINCIPAL
        world.keys.epoch_now = 3
        found = await world.port.lookup(PRINCIPAL.hash)
        assert found.principal == PRINCIPAL
        assert found.tenancy_epoch == 3
        assert (await world.port.lookup("00" * 32)).principal is None

    played(opened, script)


@both
def test_a_store_that_is_away_is_said_as_such(opened):
    async def script(world: World) -> None:
        world.keys.is_away = True
        with pytest.raises(StoreUnavailable):
            await world.port.lookup("00" * 32)

    played(opened, script)


@both
def test_an_unlimited_lease_is_taken_and_returned(opened):
    async def script(world: World) -> None:
        grant = await world.port.lease(LeaseAsk("rpm:key-1", 1, "gw"))
        assert grant.unlimited
        assert grant.valid_s == 5.0
        again = await world.port.lease(LeaseAsk("rpm:key-1", 1, "gw", returned=1))
        assert again.unlimited

    played(opened, script)


@both
def test_a_report_reaches_the_recorder_and_the_fleet(opened):
    async def script(world: World) -> None:
        report = Report("gw", rows=(ROW,), inflight={"r-1": 2}, last_used_unix={"r-1": 1.5}, waiting={"a": 1})
        await world.port.report(report)
        assert world.usage.rows == [ROW]
        assert world.fleet.reports == [report]

    played(opened, script)


@both
def test_calls_do_not_wait_for_one_another(opened):
    async def script(world: World) -> None:
        first = await world.port.feed(0)
        with trio.move_on_after(math.inf) as scope:
            async with trio.open_nursery() as nursery:
                for _ in range(20):
                    nursery.start_soon(world.port.feed, first.version)
                assert (await world.port.lookup("00" * 32)).principal is None
                scope.cancel()

    played(opened, script)


@both
def test_a_cancelled_call_harms_no_other(opened):
    async def script(world: World) -> None:
        first = await world.port.feed(0)
        for _ in range(50):
            with trio.move_on_after(0):
                await world.port.feed(first.version)
            with trio.CancelScope() as scope:
                scope.cancel()
                await world.port.lookup("00" * 32)
        world.keys.principals[PRINCIPAL.hash] = PRINCIPAL
        assert (await world.port.lookup(PRINCIPAL.hash)).principal == PRINCIPAL

    played(opened, script)


def test_the_other_side_learns_that_a_caller_left():
    async def script(world: World) -> None:
        assert world.server is not None
        first = await world.port.feed(0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(world.port.feed, first.version)
            while world.server.calls == 0:
                await trio.sleep(0.001)
            nursery.cancel_scope.cancel()
        while world.server.calls:
            await trio.sleep(0.001)

    played(piped, script)


def test_calls_end_when_the_control_process_does():
    async def main() -> None:
        left, right = socket.socketpair()
        client = ControlClient(trio.SocketStream(trio.socket.from_stdlib_socket(left)))
        outcomes = []

        async def run() -> None:
            with pytest.raises(ControlLost):
                await client.run()
            outcomes.append("client")

        async def ask() -> None:
            with pytest.raises(ControlLost):
                await client.feed(0)
            outcomes.append("call")

        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run)
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked(0.01)
                right.close()
        assert sorted(outcomes) == ["call", "client"]
        with pytest.raises(ControlLost):
            await client.lookup("00")

    trio.run(main)
