"""A real admin listener for tests: hypercorn on a loopback socket in a thread of its own, everything behind it in memory."""

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import trio

from llmgw.admin.server import AdminServer, MetricsServer
from llmgw.obs.metrics import Metrics
from llmgw.testing.memory_admin import MemoryAudit, MemoryFleetAdmin, MemoryRecords

TOKEN = "ab" * 32


class Answer:
    """What came back."""

    def __init__(self, status: int, headers: Mapping[str, str], raw: bytes) -> None:
        self.status = status
        self.headers = headers
        self.raw = raw

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def error(self) -> str:
        return self.json["error"]


class RunningAdmin:
    """The server and what stands behind it."""

    def __init__(self, **changed: Any) -> None:
        self.audit = MemoryAudit()
        self.fleet = MemoryFleetAdmin(self.audit)
        self.records = MemoryRecords()
        self.metrics = Metrics()
        self.port = 0
        self.metrics_port = 0
        self.changed = changed

    async def _serve(self, started: threading.Event, stop: trio.Event) -> None:
        parts: dict[str, Any] = {
            "fleet": self.fleet, "records": self.records, "audit": self.audit, "audit_reader": self.audit,
            "token": TOKEN, "metrics": self.metrics, "name": "cp1", "release": "0.1.0", **self.changed,
        }
        server, metrics_server = AdminServer(**parts), MetricsServer(self.metrics)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        metrics_listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        self.metrics_port = metrics_listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, listeners)
            await nursery.start(metrics_server.serve, metrics_listeners)
            started.set()
            await stop.wait()
            nursery.cancel_scope.cancel()

    def ask(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str | None] | None = None,
        port: int | None = None,
    ) -> Answer:
        """Send one request with the token and a JSON content type; `headers` change or (None) remove some."""
        sent: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}", "Authorization": f"Bearer {TOKEN}", "X-Llmgw-Actor": "tester",
            "Content-Type": "application/json" if method not in ("GET", "HEAD") else None, **(headers or {}),
        }
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if raw is not None:
            sent.setdefault("Content-Length", str(len(raw)))
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in sent.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders()
            # A server that refuses a body early may close before it has been sent whole.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.send(raw or b"")
            response = connection.getresponse()
            received = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, received, response.read())
        finally:
            connection.close()


@contextlib.contextmanager
def running_admin(**changed: Any) -> Iterator[RunningAdmin]:
    """Run a server for as long as the block."""
    admin, started, failure = RunningAdmin(**changed), threading.Event(), []
    hand: dict[str, Any] = {}

    async def main() -> None:
        hand["stop"] = trio.Event()
        hand["token"] = trio.lowlevel.current_trio_token()
        await admin._serve(started, hand["stop"])

    def run() -> None:
        try:
            trio.run(main)
        except BaseException as error:
            failure.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    started.wait(30)
    if failure:
        raise failure[0]
    try:
        yield admin
    finally:
        hand["token"].run_sync_soon(hand["stop"].set)
        thread.join(30)
    if failure:
        raise failure[0]
