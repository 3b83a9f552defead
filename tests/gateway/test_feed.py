"""The gateway's picture of the fleet."""

import trio
import trio.testing

from llmgw.gateway.feed import Feed
from llmgw.gateway.principals import Principals
from llmgw.gateway.replicas import ReplicaTable
from llmgw.ports import GatewaySettings, ModelRoute, Snapshot, StoreUnavailable


class Port:
    def __init__(self) -> None:
        self.current = Snapshot(1)
        self.is_away = False
        self.moved = trio.Event()

    def publish(self, snapshot: Snapshot) -> None:
        self.current = snapshot
        moved, self.moved = self.moved, trio.Event()
        moved.set()

    async def feed(self, after: int) -> Snapshot:
        await trio.lowlevel.checkpoint()
        while True:
            if self.is_away:
                raise StoreUnavailable("away")
            if self.current.version > after:
                return self.current
            await self.moved.wait()


def make(port: Port) -> Feed:
    return Feed(port, ReplicaTable(lambda: 0.0), Principals(port, lambda: 0.0, lambda: 0.0))  # type: ignore[arg-type]


def test_it_starts_with_the_first_snapshot_and_wakes_who_waits_for_the_next():
    async def main() -> None:
        port = Port()
        feed = make(port)
        async with trio.open_nursery() as nursery:
            await nursery.start(feed.run)
            assert feed.snapshot.version == 1
            woken = []

            async def wait() -> None:
                await feed.changed()
                woken.append(feed.names.target("m") is not None)

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            settings = GatewaySettings(trusted_proxies=("10.0.0.0/8",))
            port.publish(Snapshot(2, models=(ModelRoute("m", "serving", 1),), settings=settings))
            await trio.testing.wait_all_tasks_blocked()
            assert woken == [True]
            assert feed.settings == settings
            assert len(feed.trusted) == 1
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_the_last_picture_stays_while_the_control_process_is_away():
    async def main() -> None:
        port = Port()
        feed = make(port)
        async with trio.open_nursery() as nursery:
            await nursery.start(feed.run)
            port.is_away = True
            port.publish(Snapshot(2))
            await trio.sleep(10)
            assert feed.snapshot.version == 1
            port.is_away = False
            await trio.sleep(1)
            assert feed.snapshot.version == 2
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
