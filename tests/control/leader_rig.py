"""A leader with nodes in memory: no sockets, no store, a clock that jumps.

`Nodes` stands for the agents' links. It imitates an agent's side of the commands only as far as the leader can tell:
what is sent is kept, and a test answers for the agent, or lets `answers` do so at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import trio
import trio.testing

from llmgw.config.server import ControlSettings, ServerConfig
from llmgw.control.keeper import Kept, StoredModel
from llmgw.control.leader import Leader
from llmgw.ports import AuditEvent, Report, StoreUnavailable
from llmgw.wire.agent import (
    GPU,
    DrainShard,
    Heartbeat,
    LogsReply,
    Register,
    RunningShard,
    ShardState,
    ShardStatus,
    StartShard,
    StopShard,
)

GIB = 1024**3


class MemoryKeeper:
    """`Keeper` in memory. `is_away` makes every call raise StoreUnavailable, `is_stale` ends the term."""

    def __init__(self) -> None:
        self.term = 0
        self.models: dict[str, StoredModel] = {}
        self.scalings: dict[str, Mapping[str, Any]] = {}
        self.cordons: dict[str, tuple[str, bool]] = {}
        self.nodes: dict[str, str] = {}
        self.parked: dict[str, tuple[int, str]] = {}
        self.events: list[AuditEvent] = []
        self.is_away = False
        self.is_stale = False

    async def _ask(self) -> None:
        await anyio.lowlevel.checkpoint()
        if self.is_away:
            raise StoreUnavailable("The store cannot be reached.")

    async def lead(self, holder: str) -> Kept | None:
        await self._ask()
        self.term += 1
        self.is_stale = False
        return Kept(
            term=self.term,
            engine_secret=b"s" * 32,
            models=tuple(self.models.values()),
            scalings=dict(self.scalings),
            cordons=dict(self.cordons),
            nodes=dict(self.nodes),
            parked=dict(self.parked),
        )

    async def renew(self, term: int) -> bool:
        await self._ask()
        return not self.is_stale

    async def release(self, term: int) -> None:
        await self._ask()

    async def save_model(self, term: int, model: StoredModel, by: str, event: AuditEvent) -> None:
        await self._ask()
        self.models[model.name] = model
        self.events.append(event)

    async def delete_model(self, term: int, name: str, event: AuditEvent) -> None:
        await self._ask()
        self.models.pop(name, None)
        self.events.append(event)

    async def save_scaling(self, term: int, name: str, scaling: Mapping[str, Any], event: AuditEvent) -> None:
        await self._ask()
        self.scalings[name] = dict(scaling)
        self.events.append(event)

    async def set_cordon(self, term: int, node_id: str, by: str | None, event: AuditEvent) -> None:
        await self._ask()
        self.cordons.pop(node_id, None)
        if by is not None:
            self.cordons[node_id] = (by, False)
        self.events.append(event)

    async def park(self, term: int, model: str, failures: int, reason: str, event: AuditEvent) -> None:
        await self._ask()
        self.parked[model] = (failures, reason)
        self.events.append(event)

    async def unpark(self, term: int, model: str, event: AuditEvent) -> None:
        await self._ask()
        self.parked.pop(model, None)
        self.events.append(event)

    async def remember_node(self, term: int, node_id: str, address: str) -> None:
        await self._ask()
        self.nodes[node_id] = address


class Nodes:
    """The links, and the agents behind them. `sent`: (node, command) in order."""

    def __init__(self) -> None:
        self.leader: Leader | None = None
        self.sent: list[tuple[str, Any]] = []
        self.live: set[str] = set()
        self.running: dict[str, dict[str, RunningShard]] = {}
        self.answers: Callable[[str, Any], ShardStatus | None] = lambda node, command: None
        self.mute = False
        self._due: list[tuple[str, ShardStatus]] = []
        self._is_due = anyio.Event()

    def send(self, node_id: str, command: Any) -> bool:
        if node_id not in self.live:
            return False
        self.sent.append((node_id, command))
        shards = self.running.setdefault(node_id, {})
        if isinstance(command, StartShard):
            shards[command.shard_id] = running_of(command)
        if isinstance(command, StopShard):
            shards.pop(command.shard_id, None)
        answer = self.answers(node_id, command)
        if answer is not None:
            self._due.append((node_id, answer))
            self._is_due.set()
        return True

    async def logs(self, node_id: str, shard_id: str, lines: int) -> LogsReply:
        return LogsReply(lines=[f"{node_id} {shard_id} {lines}"])

    def connected(self) -> frozenset[str]:
        return frozenset(self.live)

    def register(self, node_id: str, **more: Any) -> list[str]:
        """Register a node with what it runs; stops what the leader does not claim. Returns those ids."""
        assert self.leader is not None
        self.live.add(node_id)
        register = register_of(node_id, running=list(self.running.get(node_id, {}).values()), **more)
        unclaimed = list(self.leader.on_register(node_id, register, "192.0.2.9"))
        for shard_id in unclaimed:
            self.send(node_id, StopShard(shard_id=shard_id))
        return unclaimed

    def say(self, node_id: str, shard_id: str, state: ShardState, **more: Any) -> None:
        """Report a shard's state."""
        assert self.leader is not None
        shards = self.running.get(node_id, {})
        if state in (ShardState.FAILED, ShardState.STOPPED):
            shards.pop(shard_id, None)
        elif shard_id in shards:
            old = shards[shard_id]
            fields = {n: getattr(old, n) for n in old.__struct_fields__}
            shards[shard_id] = RunningShard(**{**fields, "state": state})
        status = ShardStatus(
            node_id=node_id, replica_id=shard_id[:-2], shard_id=shard_id, state=state, **more
        )
        self.leader.on_shard(node_id, status)

    async def serve(self) -> None:
        """Deliver the answers as they fall due, and a heartbeat of every live node each 5 s."""
        assert self.leader is not None
        beat = anyio.current_time()
        while True:
            for node_id, status in self._take_due():
                self.say(node_id, status.shard_id, status.state, error=status.error)
            if anyio.current_time() - beat >= 5:
                beat = anyio.current_time()
                for node_id in self.live if not self.mute else ():
                    self.leader.on_heartbeat(node_id, heartbeat_of(node_id))
            self._is_due = anyio.Event()
            if not self._due:
                with anyio.move_on_after(max(beat + 5 - anyio.current_time(), 0.01)):
                    await self._is_due.wait()
            await anyio.sleep(0.01)

    def _take_due(self) -> list[tuple[str, ShardStatus]]:
        due, self._due = self._due, []
        return due

    def starts(self, node_id: str = "") -> list[StartShard]:
        return [c for n, c in self.sent if isinstance(c, StartShard) and node_id in ("", n)]

    def stops(self) -> list[str]:
        return [c.shard_id for _, c in self.sent if isinstance(c, StopShard)]

    def drains(self) -> list[str]:
        return [c.shard_id for _, c in self.sent if isinstance(c, DrainShard)]


def works(node_id: str, command: Any) -> ShardStatus | None:
    """An agent on which every start gets ready and every stop stops."""
    if isinstance(command, StartShard):
        return status_of(node_id, command.shard_id, ShardState.READY)
    if isinstance(command, StopShard):
        return status_of(node_id, command.shard_id, ShardState.STOPPED)
    return None


def breaks(error: str = "it exits 1") -> Callable[[str, Any], ShardStatus | None]:
    """An agent on which every start fails."""

    def answer(node_id: str, command: Any) -> ShardStatus | None:
        if isinstance(command, StartShard):
            return ShardStatus(
                node_id=node_id, replica_id=command.replica_id, shard_id=command.shard_id,
                state=ShardState.FAILED, error=error,
            )  # fmt: skip
        return works(node_id, command)

    return answer


def status_of(node_id: str, shard_id: str, state: ShardState) -> ShardStatus:
    return ShardStatus(node_id=node_id, replica_id=shard_id[:-2], shard_id=shard_id, state=state)


def running_of(start: StartShard) -> RunningShard:
    return RunningShard(
        shard_id=start.shard_id,
        replica_id=start.replica_id,
        model=start.model,
        profile=start.profile.name,
        engine=start.profile.engine,
        nnodes=1,
        gpu_indices=list(start.gpu_indices),
        http_port=start.http_port,
        state=ShardState.STARTING,
        pool=start.pool,
        profile_fp=start.profile_fp,
    )


def register_of(
    node_id: str, running: list[RunningShard], gpus: list[GPU] | None = None, **more: Any
) -> Register:
    fields: dict[str, Any] = {
        "cpu_count": 16,
        "memory_total_bytes": 64 * GIB,
        "mgmt_addr": f"{node_id}.example",
        "engine_versions": {"sim": "1", "llamacpp": "b1"},
        "engines_probed": True,
        "gpus": gpus or [],
    }
    return Register(node_id=node_id, running_shards=running, **{**fields, **more})


def heartbeat_of(node_id: str, **more: Any) -> Heartbeat:
    fields: dict[str, Any] = {
        "engine_versions": {"sim": "1", "llamacpp": "b1"},
        "engines_probed": True,
        "cpu_count": 16,
    }
    return Heartbeat(node_id=node_id, **{**fields, **more})


def model(name: str = "chat", **scaling: Any) -> dict[str, Any]:
    """A definition of one CPU profile on the simulated engine."""
    return {
        "name": name,
        "source": "/models/chat.gguf",
        "profiles": [{"name": "cpu", "engine": "sim", "cpu_cores": 2, "min_memory_gb": 1}],
        "scaling": scaling or {"min": 1},
    }


AUDIT = AuditEvent(at_unix=0.0, actor="ann", source="api", action="test", target="test", result="ok")


class Rig:
    """A leader in service. `keeper` may be handed to a second rig: that is a restart of the leader."""

    def __init__(self, *models: dict[str, Any], keeper: MemoryKeeper | None = None, **control: Any) -> None:
        self.keeper = keeper or MemoryKeeper()
        self.nodes = Nodes()
        self.nodes.answers = works
        config = ServerConfig(models=list(models), control=ControlSettings(**control))
        serial = iter(range(100_000))
        self.leader = Leader(
            config,
            self.keeper,
            wall=_wall,
            draw=lambda: f"{next(serial):06d}",
        )
        self.nodes.leader = self.leader
        self.leader.attach(self.nodes)

    def line(self, name: str = "chat") -> Any:
        return next(line for line in self.leader.model_lines() if line.name == name)

    def report(self, **more: Any) -> None:
        self.leader.demand(Report("gw", **more))

    async def until(self, fact: Callable[[], object], within_s: float = 30.0) -> None:
        """Let the clock run until `fact()` holds."""
        with anyio.fail_after(within_s):
            while not fact():
                await anyio.sleep(0.25)


def _wall() -> float:
    """A calendar that moves with the test's clock, and stands still where no test runs yet."""
    try:
        return 1_750_000_000 + anyio.current_time()
    except RuntimeError:
        return 1_750_000_000


def play(rig: Callable[[], Rig], scene: Callable[[Rig], Awaitable[None]]) -> None:
    """Run a scene against a leader in service, on a clock that jumps."""

    async def main() -> None:
        stage = rig()
        async with trio.open_nursery() as nursery:
            await nursery.start(lambda task_status: stage.leader.run(task_status=task_status))
            nursery.start_soon(stage.nodes.serve)
            await stage.until(stage.leader.is_leading)
            await scene(stage)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
