"""An ASGI application on sockets that are already open: hypercorn's Trio connections under a bound of our own.

Hypercorn's own server opens its sockets itself, so that a port in use is a traceback and port 0 a guess; it also takes
any number of connections, and a cancelled scope cuts answers in half. So the accept loop is here: connections beyond
the bound are closed at accept (X-31), and cancellation stops accepting at once, then lets answers finish for `grace_s`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Event, Updated
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState

_HEAD_READ_S = 10.0
_HEAD_BYTES = 64 * 1024


class AsgiServer:
    """Serves `app` until cancelled. `on_fault` is told what broke a connection, beyond a peer that left."""

    def __init__(
        self, app: Any, *, max_connections: int, on_fault: Callable[[BaseException], None], grace_s: float = 5.0
    ) -> None:
        self._app = ASGIWrapper(app)
        self._max_connections = max_connections
        self._on_fault = on_fault
        self._grace_s = grace_s
        self._context = WorkerContext(None)
        self._config = _config()
        self.open_connections = 0

    async def serve(
        self, listeners: Sequence[trio.SocketListener], *, task_status: Any = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Accept on `listeners`, which are closed at the end."""
        stopping = trio.Event()
        async with trio.open_nursery() as outer:
            connections = await outer.start(self._hold, stopping)
            try:
                await trio.serve_listeners(
                    self._connection, list(listeners), handler_nursery=connections, task_status=task_status
                )
            finally:
                await self._context.terminated.set()
                connections.cancel_scope.deadline = trio.current_time() + self._grace_s
                stopping.set()

    async def _hold(self, stopping: trio.Event, *, task_status: Any) -> None:
        """Own the connections in a scope that cancellation does not reach until the grace is over."""
        async with trio.open_nursery() as connections:
            connections.cancel_scope.shield = True
            task_status.started(connections)
            await stopping.wait()

    async def _connection(self, stream: trio.SocketStream) -> None:
        if self.open_connections >= self._max_connections:
            await stream.aclose()
            return
        self.open_connections += 1
        try:
            await _Connection(self._app, self._config, self._context, ConnectionState({}), stream)  # type: ignore
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except* Exception as faults:
            self._on_fault(faults)
        finally:
            self.open_connections -= 1
            await stream.aclose()


class _Connection(TCPServer):
    """A connection that ends with its client.

    Hypercorn lets the idle timer run on after the client has closed, so a connection of a client that asks once and
    leaves counts for another 10 s: a program that looks twice a second would soon hold every one of the bound.
    """

    is_left = False

    async def _read_data(self) -> None:
        await super()._read_data()
        self.is_left = True
        await self.idle_task.stop()

    async def protocol_send(self, event: Event) -> None:
        """Pass on what the protocol says, but start no idle timer for a client that is gone."""
        if not (self.is_left and isinstance(event, Updated)):
            await super().protocol_send(event)


def _config() -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = None
    config.include_server_header = False
    config.h11_max_incomplete_size = _HEAD_BYTES
    # The time until a whole head is there, on a new connection and between two requests alike.
    config.keep_alive_timeout = _HEAD_READ_S
    config.read_timeout = None
    return config
