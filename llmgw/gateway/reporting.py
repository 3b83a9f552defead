"""Tells the control process what happened here: usage rows, load, demand. Every 200 ms, and once more at the end.

Rows wait in a buffer with a bound. When it is full the oldest go and are counted: a control process that is away must
not fill the memory of a gateway that still serves (T-36).
"""

from collections import deque

import anyio
import msgspec
from anyio.abc import TaskStatus

from llmgw.gateway.demand import Demand
from llmgw.gateway.replicas import ReplicaTable
from llmgw.ports import ControlPort, Report, StoreUnavailable, UsageRow

EVERY_S = 0.2
ROWS_KEPT = 8192
LAST_REPORT_S = 5.0


class Reporter:
    """The service that reports. `put` never blocks."""

    def __init__(self, port: ControlPort, gateway: str, replicas: ReplicaTable, demand: Demand) -> None:
        self._port = port
        self._gateway = gateway
        self._replicas = replicas
        self._demand = demand
        self._rows: deque[UsageRow] = deque()
        self._last = Report(gateway)
        self.dropped = 0

    def put(self, row: UsageRow) -> None:
        """Keep one row for the next report."""
        self._rows.append(row)
        if len(self._rows) > ROWS_KEPT:
            self._rows.popleft()
            self.dropped += 1

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Report until cancelled, then report what is left, for at most 5 s."""
        task_status.started()
        try:
            while True:
                await anyio.sleep(EVERY_S)
                await self.report()
        finally:
            with anyio.move_on_after(LAST_REPORT_S, shield=True):
                await self.report()

    async def report(self) -> None:
        """Send one report if there is anything new in it. Rows of a report that failed are kept."""
        report = Report(
            gateway=self._gateway,
            rows=tuple(self._rows),
            inflight=self._replicas.inflight(),
            last_used_unix=self._replicas.last_used(),
            waiting=self._demand.waiting(),
            arrived=self._demand.take_arrived(),
            failed=self._replicas.take_failed_connects(),
        )
        steady = msgspec.structs.replace(report, rows=(), arrived={}, failed={})
        if steady == self._last and not (report.rows or report.arrived or report.failed):
            return
        try:
            await self._port.report(report)
        except StoreUnavailable:
            return
        self._last = steady
        for _ in range(min(len(report.rows), len(self._rows))):
            self._rows.popleft()
