"""The admin listener and the metrics listener as services: built from what they ask, served on open sockets."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import Response

from llmgw.admin.app import AdminApp, exposition
from llmgw.admin.audit import AuditReader, AuditTrail
from llmgw.admin.fleet_series import FleetSeries
from llmgw.admin.openapi import document
from llmgw.admin.operations import Services
from llmgw.admin.token import TokenCheck
from llmgw.net.asgi_server import AsgiServer
from llmgw.obs import log
from llmgw.obs.metrics import Metrics
from llmgw.ports import AuditLog, FleetAdmin, RequestRecords

_MAX_CONNECTIONS = 64
"""X-31: of the admin listener; the metrics listener has the same."""


class AdminServer:
    """Serves the admin API, /health and /metrics. What is None is answered 501 where it is asked for."""

    def __init__(
        self,
        *,
        fleet: FleetAdmin,
        records: RequestRecords | None,
        audit: AuditLog | None,
        audit_reader: AuditReader | None,
        token: str,
        metrics: Metrics,
        name: str,
        release: str,
        commit: str = "",
        leading: Callable[[], bool] = lambda: True,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._trail = AuditTrail(audit, name)
        services = Services(
            fleet=fleet,
            records=records,
            audit_reader=audit_reader,
            trail=self._trail,
            name=name,
            release=release,
            commit=commit,
            leading=leading,
            wall=wall,
            document=document(release),
        )
        FleetSeries(metrics, fleet, leading, release).register()
        self._log = log.get("admin")
        self.app = AdminApp(services, TokenCheck(token), metrics)
        self._server = AsgiServer(self.app, max_connections=_MAX_CONNECTIONS, on_fault=self._fault)

    async def serve(self, listeners: Sequence[Any], *, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve on `listeners` (of `net.listeners.open_listeners`) until cancelled; answers under way get 5 s."""
        async with anyio.create_task_group() as services:
            services.start_soon(self._trail.run)
            await self._server.serve(listeners, task_status=task_status)

    def _fault(self, fault: BaseException) -> None:
        self._log.error("a connection of the admin listener broke", fault=repr(fault))


class MetricsServer:
    """Serves /metrics and nothing else, without a token (M-101, X-19)."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._log = log.get("metrics")
        self._server = AsgiServer(self._app, max_connections=_MAX_CONNECTIONS, on_fault=self._fault)

    async def serve(self, listeners: Sequence[Any], *, task_status: Any = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        await self._server.serve(listeners, task_status=task_status)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.url.path != "/metrics":
            return Response("only /metrics is here\n", status_code=404, media_type="text/plain")
        if request.method not in ("GET", "HEAD"):
            return Response("only GET\n", status_code=405, media_type="text/plain", headers={"Allow": "GET, HEAD"})
        return await exposition(request, self._metrics)

    def _fault(self, fault: BaseException) -> None:
        self._log.error("a connection of the metrics listener broke", fault=repr(fault))
