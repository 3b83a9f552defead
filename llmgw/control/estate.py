"""Everything the leader holds in memory, in one place: what events change, passes read and views show."""

import base64
import secrets
from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from llmgw.config.refusal import Refused
from llmgw.config.server import ControlSettings, ServerConfig
from llmgw.control.catalog import Catalog
from llmgw.control.demand_book import DemandBook
from llmgw.control.engine_key import engine_key
from llmgw.control.inventory import Inventory
from llmgw.control.port_book import PortBook, parse_port_range
from llmgw.control.replicas import Replica, ReplicaBook
from llmgw.policy import backoff
from llmgw.policy.reconcile import Note
from llmgw.policy.room import Room, room_of
from llmgw.policy.snapshot import Failures, Memory, ModelSeen, Snapshot
from llmgw.wire.agent import Command, LogsReply


class AgentCommands(Protocol):
    """What the agents' links offer the leader."""

    def send(self, node_id: str, command: Command) -> bool:
        """Send one command; False when the node has no link now."""
        ...

    async def logs(self, node_id: str, shard_id: str, lines: int) -> LogsReply:
        """Ask a node for log lines. Raises Refused(503) when it cannot be asked."""
        ...

    def connected(self) -> frozenset[str]:
        """Return the nodes with a link."""
        ...


class NoLinks:
    """Stands in until the links are attached: nobody is connected."""

    def send(self, node_id: str, command: Command) -> bool:
        """Return that nothing was sent."""
        return False

    async def logs(self, node_id: str, shard_id: str, lines: int) -> LogsReply:
        """Refuse."""
        raise Refused(503, f"node {node_id} is not connected")

    def connected(self) -> frozenset[str]:
        """Return nobody."""
        return frozenset()


Draw = Callable[[], str]
"""Returns six characters for a replica's id; given in tests, random in service."""


def random_suffix() -> str:
    """Return six random characters of lower-case base32 (L-26)."""
    return base64.b32encode(secrets.token_bytes(4)).decode().lower()[:6]


def zone_of(settings: ControlSettings) -> tzinfo:
    """Return the time zone of schedules. Raises Refused(400) for a name that is not known here.

    UTC needs no database: a small system without one must still start with the default.
    """
    if settings.timezone == "UTC":
        return UTC
    try:
        return ZoneInfo(settings.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Refused(
            400,
            f"control.timezone {settings.timezone!r} is not a time zone this machine knows; "
            "use an IANA name like Europe/Berlin, and install the package tzdata where there are none",
        ) from None


class Estate:
    """The leader's memory. `now_s` is the monotonic clock, `now_unix` the calendar."""

    def __init__(self, config: ServerConfig, now_s: Callable[[], float], now_unix: Callable[[], float]) -> None:
        control = config.control
        self.settings = control
        self.zone = zone_of(control)
        self.now_s, self.now_unix = now_s, now_unix
        self.catalog = Catalog(config.models, now_unix())
        self.inventory = Inventory(control.node_unreachable_after, control.node_lost_after)
        self.replicas = ReplicaBook()
        self.ports = PortBook(parse_port_range(control.port_range))
        self.demand = DemandBook()
        self.links: AgentCommands = NoLinks()
        self.failures: dict[str, Failures] = {}
        self.memories: dict[str, Memory] = {}
        self.notes: dict[str, Note] = {}
        self.parked_to_keep: set[str] = set()
        self.nodes_to_keep: dict[str, str] = {}
        self.engine_secret = b""
        self.term = 0
        self.settles_at_s = 0.0

    def is_settling(self) -> bool:
        """Return whether agents known from before may still report what they run (P-31)."""
        return self.is_young() and not self.inventory.is_complete()

    def is_young(self) -> bool:
        """Return whether this leader has just begun, so that demand before it is unknown to it."""
        return self.now_s() < self.settles_at_s

    def failures_of(self, model: str) -> Failures:
        """Return what went wrong with a model lately."""
        return backoff.fresh(self.failures.get(model, Failures()), self.now_s())

    def snapshot(self) -> Snapshot:
        """Return everything one pass decides from."""
        now_s, now_unix = self.now_s(), self.now_unix()
        self.demand.refresh(self.replicas)
        by_model: dict[str, list[Replica]] = {}
        for replica in self.replicas:
            by_model.setdefault(replica.model, []).append(replica)
        models = tuple(
            ModelSeen(
                definition=definition,
                load=self.demand.load(definition.name, by_model.get(definition.name, ()), now_s),
                failures=self.failures_of(definition.name),
                memory=self.memories.get(definition.name, Memory()),
            )
            for definition in self.catalog
        )
        return Snapshot(
            now_s=now_s,
            now_unix=now_unix,
            nodes=self.inventory.nodes_seen(),
            models=models,
            replicas=tuple(r.seen(now_s, now_unix) for r in self.replicas),
            is_settling=self.is_settling(),
            zone=self.zone,
            drain_timeout_s=self.settings.drain_timeout,
        )

    def room(self) -> Room:
        """Return what is left on the nodes now."""
        now_s, now_unix = self.now_s(), self.now_unix()
        return room_of(self.inventory.nodes_seen(), [r.seen(now_s, now_unix) for r in self.replicas])

    def key_of(self, replica_id: str) -> str:
        """Return the key a replica's engine demands."""
        return engine_key(self.engine_secret, replica_id)

    def release(self, replica: Replica) -> None:
        """Forget a replica whose processes are gone, and free what it held."""
        self.replicas.drop(replica)
        self.ports.give_back(replica.node, replica.port, self.now_s())

    def fail(self, replica: Replica, error: str) -> Failures:
        """Count a failed start or a death of a replica, and release it. Returns the model's failures."""
        now_s = self.now_s()
        failures = backoff.after_failure(
            self.failures_of(replica.model),
            now_s,
            node=replica.node,
            error=error,
            lived_s=None if replica.ready_s is None else now_s - replica.ready_s,
            park_after=self.settings.park_after,
        )
        if failures.is_parked and not self.failures_of(replica.model).is_parked:
            self.parked_to_keep.add(replica.model)
        self.failures[replica.model] = failures
        self.release(replica)
        replica.phase, replica.error = "failed", error
        self.replicas.last_failed[replica.model] = replica
        return failures

    def forgive(self, model: str) -> None:
        """Clear a model's failures and what failed last."""
        self.failures.pop(model, None)
        self.replicas.last_failed.pop(model, None)
        self.parked_to_keep.discard(model)

    def forget_model(self, model: str) -> None:
        """Forget what was remembered of a model that was removed; its replicas leave by the next pass."""
        self.forgive(model)
        self.memories.pop(model, None)
        self.notes.pop(model, None)
        self.demand.forget(model)

    def remember_target(self, model: str, at_least: int) -> None:
        """Let scaling begin from the replicas that were found running."""
        memory = self.memories.get(model, Memory())
        target = max(memory.scale.target, at_least)
        self.memories[model] = msgspec.structs.replace(
            memory, scale=msgspec.structs.replace(memory.scale, target=target)
        )
