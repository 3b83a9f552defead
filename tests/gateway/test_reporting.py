"""What the control process is told, and when."""

import trio
import trio.testing

from llmgw.gateway.demand import Demand
from llmgw.gateway.replicas import ReplicaTable
from llmgw.gateway.reporting import ROWS_KEPT, Reporter
from llmgw.ports import ReplicaRoute, Report, StoreUnavailable, UsageRow

ROUTE = ReplicaRoute("a", "m", "cpu", "llamacpp", "127.0.0.1", 1, "k", "m", "/metrics")


def row(number: int) -> UsageRow:
    return UsageRow(str(number), "r", 0.0, "chat.completions", False, "k", "project", "p", "t", "o", "", "m")


class Port:
    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.is_away = False

    async def report(self, report: Report) -> None:
        await trio.lowlevel.checkpoint()
        if self.is_away:
            raise StoreUnavailable("away")
        self.reports.append(report)


class World:
    def __init__(self) -> None:
        self.port = Port()
        self.replicas = ReplicaTable(lambda: 9.0)
        self.replicas.replace([ROUTE])
        self.demand = Demand()
        self.reporter = Reporter(self.port, "gw", self.replicas, self.demand)  # type: ignore[arg-type]


def test_rows_put_before_the_end_are_reported_at_the_end():
    async def main() -> None:
        world = World()
        async with trio.open_nursery() as nursery:
            await nursery.start(world.reporter.run)
            world.reporter.put(row(1))
            nursery.cancel_scope.cancel()
        assert [each.id for report in world.port.reports for each in report.rows] == ["1"]

    trio.run(main)


def test_every_200_ms_and_only_when_there_is_news():
    async def main() -> None:
        world = World()
        async with trio.open_nursery() as nursery:
            await nursery.start(world.reporter.run)
            with world.replicas.slot("a"):
                await trio.sleep(1.1)
                assert [report.inflight for report in world.port.reports] == [{"a": 1}]
            await trio.sleep(1.0)
            assert [report.inflight for report in world.port.reports] == [{"a": 1}, {}]
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_rows_of_a_report_that_failed_are_told_later_and_once():
    async def main() -> None:
        world = World()
        world.port.is_away = True
        world.reporter.put(row(1))
        await world.reporter.report()
        world.reporter.put(row(2))
        world.port.is_away = False
        await world.reporter.report()
        await world.reporter.report()
        assert [[each.id for each in report.rows] for report in world.port.reports] == [["1", "2"]]

    trio.run(main)


def test_a_full_buffer_drops_the_oldest_and_counts():
    world = World()
    for number in range(ROWS_KEPT + 3):
        world.reporter.put(row(number))
    assert world.reporter.dropped == 3


def test_demand_is_told_while_it_lasts():
    async def main() -> None:
        world = World()
        world.demand.arrived("m")
        with world.demand.waits("m"):
            await world.reporter.report()
        await world.reporter.report()
        told = [(report.waiting, report.arrived) for report in world.port.reports]
        assert told == [({"m": 1}, {"m": 1}), ({}, {})]

    trio.run(main)
