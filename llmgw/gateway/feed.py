"""The gateway's picture of the fleet: one service that takes each new snapshot and spreads it.

Stages read the picture and never ask for one, so a request costs no call to the control process. Who waits for a
change (a request held for its model) waits on `changed`.
"""

import anyio
from anyio.abc import TaskStatus

from llmgw.gateway.client_address import Network, networks
from llmgw.gateway.names import Names
from llmgw.gateway.principals import Principals
from llmgw.gateway.replicas import ReplicaTable
from llmgw.ports import ControlPort, GatewaySettings, Snapshot, StoreUnavailable

RETRY_S = 0.5


class Feed:
    """Holds the current snapshot and what is derived from it."""

    def __init__(self, port: ControlPort, replicas: ReplicaTable, principals: Principals) -> None:
        self._port = port
        self._replicas = replicas
        self._principals = principals
        self._moved = anyio.Event()
        self.snapshot = Snapshot(version=0)
        self.names = Names(())
        self.trusted: tuple[Network, ...] = ()

    @property
    def settings(self) -> GatewaySettings:
        """The settings of the current snapshot."""
        return self.snapshot.settings

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follow the control port until cancelled; started once the first snapshot is in.

        While the control process is away the last picture stays: engines it names can still answer.
        """
        is_started = False
        while True:
            try:
                snapshot = await self._port.feed(self.snapshot.version)
            except StoreUnavailable:
                await anyio.sleep(RETRY_S)
                continue
            self.take(snapshot)
            if not is_started:
                is_started = True
                task_status.started()

    def take(self, snapshot: Snapshot) -> None:
        """Replace the picture and wake who waits for a change."""
        self.snapshot = snapshot
        self.names = Names(snapshot.models)
        self.trusted = networks(snapshot.settings.trusted_proxies)
        self._replicas.replace(snapshot.replicas)
        self._principals.take_notice(snapshot.tenancy_epoch, snapshot.store_away)
        moved, self._moved = self._moved, anyio.Event()
        moved.set()

    async def changed(self) -> None:
        """Wait for the next snapshot."""
        await self._moved.wait()
