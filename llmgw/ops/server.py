"""The server role: store, leader, agents' links, gateway, admin API and metrics, composed.

Started in the order in which one needs another, stopped in reverse: first no new client connections, then the answers
under way finish (30 s at most), then the gateway's rows are reported and written, then the links say goodbye, and the
store closes last.
"""

import socket
from functools import partial
from pathlib import Path

import anyio

from llmgw import __version__
from llmgw.admin.server import AdminServer, MetricsServer
from llmgw.admin.token import load_or_make
from llmgw.config.load import load_server_config
from llmgw.config.server import ServerConfig
from llmgw.control.leader import Leader
from llmgw.control.links import AgentLinks
from llmgw.control.port import LocalControl
from llmgw.gateway.pipeline import Gateway
from llmgw.net.engine_pool import EnginePool
from llmgw.net.http1_server import Http1Server
from llmgw.net.interpreter import tune_for_serving
from llmgw.net.limits import ListenerLimits
from llmgw.obs import log
from llmgw.obs.access import AccessLog
from llmgw.obs.metrics import Metrics
from llmgw.ops.gateway_settings import gateway_settings
from llmgw.ops.lifetime import Stop, exit_status, wait_for_stop
from llmgw.ops.server_listeners import Listeners, server_listeners
from llmgw.ops.store_ports import StoredAudit, StoredRequests
from llmgw.ops.usage_figures import show_recorder
from llmgw.people.lookup import StoreKeyLookup
from llmgw.store.loop import Store
from llmgw.store.recorder import UsageRecorder

FINISH_ANSWERS_S = 30.0


def main(config: str, parent_fd: int | None = None) -> int:
    """Run until SIGTERM or SIGINT. Returns 0, or 1 after a refusal said on standard error.

    `parent_fd` is the read end of a pipe whose closing means that whoever started this server is gone.
    """
    try:
        settings = load_server_config(config)
        log.configure(settings.log.format, settings.log.level)
        tune_for_serving()
        anyio.run(partial(_serve, settings, parent_fd), backend="trio")
    except BaseException as error:
        return exit_status("server", error)
    return 0


def token_path(config: ServerConfig) -> Path:
    """Return where the admin token is kept: `admin_token_file`, else beside an SQLite store, else the state folder."""
    if config.admin_token_file:
        return Path(config.admin_token_file)
    beside = Path(config.auth.store) if config.auth.store.startswith("/") else Path("/var/lib/llmgw/llmgw.db")
    return beside.with_name("admin-token")


async def _serve(config: ServerConfig, parent_fd: int | None) -> None:
    name = config.name or socket.gethostname()
    metrics = Metrics()
    async with server_listeners(config) as listeners, Store(config.auth.store) as store, EnginePool() as pool:
        token = load_or_make(token_path(config))
        keys = StoreKeyLookup(store)
        recorder = UsageRecorder(
            store,
            flush_interval_s=config.auth.flush_interval,
            batch_size=config.auth.batch_size,
            buffer_size=config.auth.buffer_size,
            warn=log.get("store.recorder").warning,
        )
        show_recorder(metrics, recorder)
        leader = Leader(config, store, name=name)
        links = AgentLinks(
            leader,
            control_plane=name,
            tls=config.agent_tls,
            term=leader.term,
            leading=leader.is_leading,
            servers=lambda: config.endpoints,
        )
        leader.attach(links)
        settings = gateway_settings(config)
        port = LocalControl(leader, keys, recorder, lambda: settings)
        access = AccessLog("gateway", config.log.format, config.log.level)
        gateway = Gateway(port, pool, metrics, log.get("gateway"), name=name, access=access)
        client = Http1Server(
            gateway.handle,
            ListenerLimits(max_connections=config.router.max_connections, trusted=settings.trusted_proxies),
            gateway.on_fault,
        )
        audit = StoredAudit(store)
        admin = AdminServer(
            fleet=leader,
            records=StoredRequests(store),
            audit=audit,
            audit_reader=audit,
            token=token,
            metrics=metrics,
            name=name,
            release=__version__,
            leading=leader.is_leading,
        )
        services = _Services(keys, recorder, leader, links, gateway, client, admin, MetricsServer(metrics))
        await services.run(listeners, parent_fd)


class _Services:
    """The running parts, in the order in which they start."""

    def __init__(
        self,
        keys: StoreKeyLookup,
        recorder: UsageRecorder,
        leader: Leader,
        links: AgentLinks,
        gateway: Gateway,
        client: Http1Server,
        admin: AdminServer,
        metrics: MetricsServer,
    ) -> None:
        self._keys, self._recorder, self._leader, self._links = keys, recorder, leader, links
        self._gateway, self._client, self._admin, self._metrics = gateway, client, admin, metrics

    async def run(self, listeners: Listeners, parent_fd: int | None) -> None:
        """Start everything, wait for the end, stop in reverse."""
        async with anyio.create_task_group() as kept:
            await kept.start(self._keys.run)
            await kept.start(self._recorder.run)
            async with anyio.create_task_group() as led:
                await led.start(self._leader.run)
                await led.start(partial(self._links.serve, listeners.agent))
                await led.start(partial(self._admin.serve, listeners.admin))
                await led.start(partial(self._metrics.serve, listeners.metrics))
                await self._serve_clients(listeners, parent_fd)
                led.cancel_scope.cancel()
            kept.cancel_scope.cancel()

    async def _serve_clients(self, listeners: Listeners, parent_fd: int | None) -> None:
        async with anyio.create_task_group() as routed:
            await routed.start(self._gateway.run)
            async with anyio.create_task_group() as serving:
                await serving.start(partial(self._client.serve, listeners.client))
                said = partial(log.get("server").info, "serving", release=__version__)
                reason = await wait_for_stop(parent_fd, said)
                self._client.stop_accepting()
                await self._client.drain(FINISH_ANSWERS_S if reason is Stop.SIGNAL else 0.0)
                serving.cancel_scope.cancel()
            routed.cancel_scope.cancel()
