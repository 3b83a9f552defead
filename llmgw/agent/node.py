"""The node behind the link: what it is, what it runs, and what it does when told (20 sections 2 and 5).

The node's tasks outlive every link: engines keep serving, downloads go on, and whoever connects next is told what is.
`run` owns all of them. It ends by cancellation and leaves engines running, since the agent's restart must not be felt;
`stop_all` is for a role that takes its engines with it.
"""

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

import anyio
import anyio.abc
from anyio import to_thread

from llmgw import __version__
from llmgw.agent.adopt import adopt_saved
from llmgw.agent.agent_log import AgentLog
from llmgw.agent.bind_address import bind_address, interface_of, own_addresses, route_address
from llmgw.agent.directories import prepare_directories
from llmgw.agent.engine_probe import EngineProbe
from llmgw.agent.engine_user import engine_user
from llmgw.agent.engines.registry import EngineRegistry
from llmgw.agent.facts import LoadMeter, cpu_count, read_gpus, read_machine
from llmgw.agent.log_ring import prune_logs
from llmgw.agent.outbox import LinkEnded, Outbox
from llmgw.agent.shard_lane import ShardLanes
from llmgw.agent.shard_reports import ShardReports
from llmgw.agent.shard_spec import spec_of
from llmgw.agent.shard_start import ShardStart
from llmgw.agent.shards import Shard, ShardTable
from llmgw.agent.supervisor import Supervisor
from llmgw.agent.weights import Weights
from llmgw.config.agent import AgentConfig
from llmgw.obs import log
from llmgw.wire.agent import (
    CachedWeight,
    Command,
    DrainShard,
    Heartbeat,
    LogsReply,
    LogsRequest,
    Register,
    RemoveWeights,
    ShardState,
    ShardStatus,
    StartShard,
    StopShard,
)

_PROBE_WAIT_S = 60.0
_ROTATE_EVERY_S = 1.0
_PRUNE_EVERY_S = 600.0
_MOST_LOG_LINES = 5000
_LOGS_REPLY_BYTES = 1024 * 1024


class Node:
    """One machine's agent without its link. Raises Refused at once for a configuration that cannot work here."""

    def __init__(self, config: AgentConfig, agent_log: AgentLog | None = None) -> None:
        self._config = config
        self._agent_log = agent_log
        self._user = engine_user(config.supervisor.user)
        self._directories = prepare_directories(config, self._user)
        self._machine = read_machine()
        self._gpus = read_gpus(config.inventory_file)
        self._registry = EngineRegistry(config.engines)
        self._probe = EngineProbe(self._registry, str(self._directories.engines), self._user)
        self._meter = LoadMeter()
        self._started_unix = int(time.time())
        self._recovered = anyio.Event()
        self._stops: Counter[str] = Counter()
        self.shards = ShardTable()
        self.node_id = config.node_id or self._machine.hostname.lower()
        self.mgmt_addr = config.mgmt_addr or route_address(config.servers[0] if config.servers else "")
        self.mgmt_interface = config.mgmt_interface or interface_of(self.mgmt_addr)

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Adopt what runs, probe engines, then carry out commands until cancelled; engines are left running."""
        async with anyio.create_task_group() as tasks:
            self._compose(tasks)
            if self._user is None:
                log.get("agent").warning("not root: engines run as the agent's own user")
            await adopt_saved(
                self._supervisor, self._registry, self.shards, self._config.adopt_ready_timeout, tasks
            )
            self._recovered.set()
            tasks.start_soon(self._probe.run)
            tasks.start_soon(self._keep_logs)
            task_status.started()

    def _compose(self, tasks: anyio.abc.TaskGroup) -> None:
        directories = self._directories
        self._tasks = tasks
        self._lanes = ShardLanes(tasks)
        self._weights = Weights(directories.weights, self._config.weights, tasks)
        self._supervisor = Supervisor(directories, self._config.state_dir, self._user, tasks)
        self._start = ShardStart(
            self._registry, self._weights, self._supervisor, self._probe, self._gpus, str(directories.engines)
        )

    async def _keep_logs(self) -> None:
        """Rotate engines' output each second and drop that of long-ended shards now and then."""
        pruned_s = 0.0
        while True:
            running = [shard.shard_id for shard in self.shards.living()]
            for shard_id in running:
                await to_thread.run_sync(self._supervisor.log_of(shard_id).rotate)
            if time.monotonic() - pruned_s > _PRUNE_EVERY_S:
                pruned_s = time.monotonic()
                await to_thread.run_sync(prune_logs, self._directories.logs, frozenset(running))
            await anyio.sleep(_ROTATE_EVERY_S)

    async def register(self) -> Register:
        """Describe the node, after running engines were found again and engines were probed once (P-21)."""
        await self._recovered.wait()
        with anyio.move_on_after(_PROBE_WAIT_S):
            await self._probe.complete.wait()
        machine = self._machine
        total_bytes, free_bytes = self._weights.disk_bytes()
        return Register(
            node_id=self.node_id,
            version=__version__,
            hostname=machine.hostname,
            os=machine.os,
            kernel=machine.kernel,
            arch=machine.arch,
            cpu_model=machine.cpu_model,
            cpu_count=cpu_count(),
            memory_total_bytes=machine.memory_total_bytes,
            mgmt_addr=self.mgmt_addr,
            mgmt_interface=self.mgmt_interface,
            labels=self._config.labels,
            gpus=self._gpus,
            disk_total_bytes=total_bytes,
            disk_free_bytes=free_bytes,
            weights=await self._cached(),
            engine_versions=dict(self._probe.versions()),
            engines_probed=self._probe.complete.is_set(),
            running_shards=[shard.running(self.mgmt_addr) for shard in self.shards.living()],
            started_unix=self._started_unix,
        )

    async def heartbeat(self, seq: int) -> Heartbeat:
        """Describe what changed by itself; everything is measured now."""
        processes = {shard.shard_id: shard.process.identity for shard in self.shards.living() if shard.process}
        load = await to_thread.run_sync(self._meter.read, processes, time.monotonic())
        total_bytes, free_bytes = self._weights.disk_bytes()
        return Heartbeat(
            node_id=self.node_id,
            seq=seq,
            sent_unix=time.time(),
            gpu_memory_used_mb=[gpu.memory_used_mb for gpu in self._gpus],
            disk_total_bytes=total_bytes,
            disk_free_bytes=free_bytes,
            weights=await self._cached(),
            engine_versions=dict(self._probe.versions()),
            engines_probed=self._probe.complete.is_set(),
            load=load,
            cpu_count=cpu_count(),
        )

    async def _cached(self) -> list[CachedWeight]:
        return await to_thread.run_sync(self._weights.cached, self.shards.paths_in_use())

    def on_command(self, message: Command, trace: dict[str, str], outbox: Outbox) -> None:
        """Carry out a command in a task of the node's own; `run` must have started."""
        match message:
            case StartShard():
                self._on_start(message, outbox)
            case StopShard():
                self._on_stop(message, outbox)
            case DrainShard():
                self._lanes.put(message.shard_id, partial(self._drain, message))
            case LogsRequest():
                self._tasks.start_soon(self._send_logs, message, outbox)
            case RemoveWeights():
                self._tasks.start_soon(self._remove_weights, message)
            case _:
                log.get("agent").warning("a command this agent does not carry out", command=type(message).__name__)

    def _on_start(self, message: StartShard, outbox: Outbox) -> None:
        """A repeated start changes nothing and is told where the shard stands (P-51), even while that start runs."""
        shard = self.shards.get(message.shard_id)
        if shard is not None and not shard.is_ended and not self._stops[message.shard_id]:
            self._tasks.start_soon(self._send, outbox, shard.status(self.node_id))
            return
        self._lanes.put(message.shard_id, partial(self._run_start, message, outbox))

    async def _run_start(self, message: StartShard, outbox: Outbox) -> None:
        existing = self.shards.get(message.shard_id)
        if existing is not None and not existing.is_ended:
            await self._send(outbox, existing.status(self.node_id))
            return
        bind = bind_address(self.mgmt_addr, await to_thread.run_sync(own_addresses))
        shard = self.shards.add(spec_of(message, bind, self.mgmt_interface, self._gpu_uuids(message)))
        timeout_s = message.ready_timeout_ms / 1000 or self._config.supervisor.ready_timeout
        with anyio.CancelScope() as shard.starting:
            try:
                await self._start.run(shard, timeout_s)
            except Exception:
                log.get("agent.shards").exception("a start broke", shard=shard.shard_id)
                await self._supervisor.stop(shard, grace_s=5.0)
                shard.fail("the agent failed to start it by a fault of its own; see the agent's log on the node")
        shard.starting = None

    def _gpu_uuids(self, message: StartShard) -> list[str]:
        """UUIDs only when one of the devices is a MIG instance, and then for all of them (P-55)."""
        by_index = {gpu.index: gpu for gpu in self._gpus}
        chosen = [by_index.get(index) for index in message.gpu_indices]
        if not any(gpu is not None and gpu.mig is not None for gpu in chosen):
            return []
        uuids = [gpu.uuid for gpu in chosen if gpu is not None and gpu.uuid]
        return uuids if len(uuids) == len(chosen) else []

    def _on_stop(self, message: StopShard, outbox: Outbox) -> None:
        """A start that is under way is cancelled at once; the stop itself waits its turn."""
        shard = self.shards.get(message.shard_id)
        if shard is not None and shard.starting is not None:
            shard.starting.cancel()
        self._stops[message.shard_id] += 1
        self._lanes.put(message.shard_id, partial(self._run_stop, message, outbox))

    async def _run_stop(self, message: StopShard, outbox: Outbox) -> None:
        await self._stop(message, outbox)
        self._stops[message.shard_id] -= 1
        if not self._stops[message.shard_id]:
            del self._stops[message.shard_id]

    async def _stop(self, message: StopShard, outbox: Outbox) -> None:
        shard = self.shards.get(message.shard_id)
        if shard is None:
            status = ShardStatus(node_id=self.node_id, shard_id=message.shard_id, state=ShardState.STOPPED)
            await self._send(outbox, status)
            return
        await self._stop_shard(shard, message.grace_ms / 1000 or self._config.supervisor.stop_grace)

    async def _stop_shard(self, shard: Shard, grace_s: float) -> None:
        if not shard.is_ended:
            shard.move(ShardState.STOPPING)
            await self._supervisor.stop(shard, grace_s)
        shard.is_end_told = False
        shard.move(ShardState.STOPPED)

    async def _drain(self, message: DrainShard) -> None:
        shard = self.shards.get(message.shard_id)
        if shard is not None and shard.state is ShardState.READY:
            shard.move(ShardState.DRAINING)

    async def stop_all(self, grace_s: float | None = None) -> None:
        """Stop every shard, side by side, and return when all are gone. For a role that takes its engines with it."""
        wait_s = self._config.supervisor.stop_grace if grace_s is None else grace_s
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as stops:
                for shard in self.shards.living():
                    if shard.starting is not None:
                        shard.starting.cancel()
                    stops.start_soon(self._stop_shard, shard, wait_s)

    async def _send_logs(self, message: LogsRequest, outbox: Outbox) -> None:
        lines, error = await self._log_lines(message.shard_id, min(message.lines, _MOST_LOG_LINES))
        kept, truncated = _within(lines, _LOGS_REPLY_BYTES)
        await self._send(outbox, LogsReply(request_id=message.request_id, lines=kept, truncated=truncated, error=error))

    async def _log_lines(self, shard_id: str, lines: int) -> tuple[list[str], str]:
        if not shard_id:
            return (self._agent_log.tail(lines), "") if self._agent_log else ([], "this agent keeps no log in memory")
        found = self._supervisor.log_of(shard_id) if "/" not in shard_id else None
        if found is None or not found.path.exists():
            return [], f"there is no output of a shard {shard_id} on {self.node_id}"
        wanted = min(lines, self._config.supervisor.log_lines)
        return await to_thread.run_sync(found.tail, wanted), ""

    async def _remove_weights(self, message: RemoveWeights) -> None:
        refused = await to_thread.run_sync(self._weights.remove, message.paths, self.shards.paths_in_use())
        for sentence in refused:
            log.get("agent.weights").warning(sentence)

    async def _send(self, outbox: Outbox, message: "ShardStatus | LogsReply") -> None:
        try:
            await outbox.send(message)
        except LinkEnded:
            log.get("agent").info("an answer had no link left to go to", kind=type(message).__name__)

    async def watch(self, outbox: Outbox, registered: Register) -> None:
        """Report the shards' changes for the life of this link (P-58, P-59)."""
        await ShardReports(self.node_id, self.shards, outbox, registered).run()


def _within(lines: Sequence[str], limit_bytes: int) -> tuple[list[str], bool]:
    """Return the newest lines that fit, and whether older ones were left out (P-61)."""
    size, kept = 0, 0
    for line in reversed(lines):
        size += len(line.encode()) + 1
        if size > limit_bytes:
            break
        kept += 1
    return list(lines[len(lines) - kept :]), kept < len(lines)
