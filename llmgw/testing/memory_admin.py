"""The leader's admin side, the audit log and the usage records in memory: for tests of the admin API and of ctl.

They imitate the Protocols of `llmgw.ports` only. Changes are kept, and their audit events appended, as a leader does.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from llmgw.admin.audit import AuditAsk
from llmgw.config.refusal import Refused
from llmgw.ports import AuditEvent, StoreUnavailable, UsageRow
from llmgw.wire.admin import (
    AuditEventView,
    GPUView,
    ModelCounts,
    ModelLine,
    NodeCounts,
    NodeView,
    PlacementView,
    ProfilePlacementView,
    RejectionView,
    ReplicaCounts,
    ReplicaView,
    ShardView,
    Summary,
    rfc3339,
)


class MemoryAudit:
    """`AuditLog` and its reader over a list."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []
        self.is_away = False

    async def write(self, event: AuditEvent) -> None:
        """Append one event. Raises StoreUnavailable while `is_away`."""
        if self.is_away:
            raise StoreUnavailable("The store cannot be reached.")
        self.events.append(event)

    async def query(self, ask: AuditAsk) -> Sequence[AuditEventView]:
        """Return events, newest first."""
        if self.is_away:
            raise StoreUnavailable("The store cannot be reached.")
        found = [_view(number, event) for number, event in enumerate(self.events, 1) if _is_asked(ask, number, event)]
        return found[::-1][: ask.limit]


def _is_asked(ask: AuditAsk, number: int, event: AuditEvent) -> bool:
    exact = ((ask.actor, event.actor), (ask.source, event.source), (ask.target, event.target))
    if any(wanted not in (None, has) for wanted, has in (*exact, (ask.result, event.result))):
        return False
    if ask.action is not None and not (
        event.action.startswith(ask.action[:-1]) if ask.action.endswith("*") else event.action == ask.action
    ):
        return False
    after = ask.since_unix is None or event.at_unix >= ask.since_unix
    earlier = ask.until_unix is None or event.at_unix < ask.until_unix
    return after and earlier and (ask.before is None or number < ask.before)


def _view(number: int, event: AuditEvent) -> AuditEventView:
    fields = msgspec.structs.asdict(event)
    return AuditEventView(id=number, at=rfc3339(fields.pop("at_unix")), **fields)


class MemoryRecords:
    """`RequestRecords` over a list."""

    def __init__(self) -> None:
        self.rows: list[UsageRow] = []
        self.is_away = False

    async def by_request_id(self, request_id: str) -> Sequence[UsageRow]:
        """Return the rows of one request."""
        if self.is_away:
            raise StoreUnavailable("The store cannot be reached.")
        return [row for row in self.rows if row.request_id == request_id]


class MemoryFleetAdmin:
    """`FleetAdmin` with one node `n1` and one model `chat` to begin with; `audit` gets the events of changes made."""

    def __init__(self, audit: MemoryAudit) -> None:
        self.audit = audit
        self.cordoned: set[str] = set()
        self.definitions: dict[str, dict[str, Any]] = {"chat": _definition("chat")}
        self.retried: list[str] = []
        self.replicas: list[ReplicaView] = [_replica("chat-0", "chat")]
        self.gpus: list[GPUView] = []
        self.log_lines = [f"line {number}" for number in range(1, 301)]

    def nodes(self) -> Sequence[NodeView]:
        """Return the one node."""
        state = "cordoned" if "n1" in self.cordoned else "ready"
        return [
            NodeView(
                id="n1", address="10.0.0.1", state=state, version="0.1.0", cpu_count=8, memory_bytes=2**34,
                memory_free_bytes=2**33, replicas=tuple(r.id for r in self.replicas), gpus=tuple(self.gpus),
            )
        ]

    def model_lines(self) -> Sequence[ModelLine]:
        """Return the models."""
        return [
            ModelLine(
                name=name, engine="llamacpp", status="serving", ready=1, desired=1, total=1,
                min=one["scaling"]["min"], max=one["scaling"]["max"], source=one.get("source", ""),
            )
            for name, one in sorted(self.definitions.items())
        ]

    def model_definition(self, name: str) -> Mapping[str, Any]:
        """Return one definition."""
        if name not in self.definitions:
            raise Refused(404, f"there is no model {name}")
        found = self.definitions[name]
        return {**found, "state": {"status": "serving", "desired": found["scaling"]["min"]}}

    def replica_views(self, model: str | None) -> Sequence[ReplicaView]:
        """Return the replicas."""
        return [replica for replica in self.replicas if model in (None, replica.model)]

    def placement(self, name: str) -> PlacementView:
        """Return a placement with one rejection."""
        self.model_definition(name)
        rejection = RejectionView(node="n1", reason="memory: 8.0 of 16.0 GiB free, needs 20.0")
        profile = ProfilePlacementView(name="cpu", fits=False, rejections=(rejection,))
        return PlacementView(model=name, wanted=2, have=1, profiles=(profile,), waiting_for="room")

    def summary(self) -> Summary:
        """Return counts."""
        return Summary(
            nodes=NodeCounts(total=1, ready=1), replicas=ReplicaCounts(ready=1),
            models=ModelCounts(total=len(self.definitions), satisfied=len(self.definitions)),
        )

    async def add_model(self, definition: Mapping[str, Any], audit: AuditEvent) -> Mapping[str, Any]:
        """Keep a model."""
        name = definition.get("name")
        if not isinstance(name, str) or not name:
            raise Refused(400, "name: a model needs a name")
        if name in self.definitions:
            raise Refused(409, f"there is a model {name} already")
        unknown = set(definition) - {"name", "source", "profiles", "scaling", "description"}
        if unknown:
            raise Refused(400, f"unknown field {', '.join(sorted(unknown))}")
        self.definitions[name] = {**_definition(name), **definition}
        await self.audit.write(audit)
        return self.definitions[name]

    async def remove_model(self, name: str, force: bool, audit: AuditEvent) -> None:
        """Forget a model."""
        self.model_definition(name)
        await self.audit.write(audit)
        del self.definitions[name]

    async def scale_model(self, name: str, change: Mapping[str, Any], audit: AuditEvent) -> Mapping[str, Any]:
        """Change bounds."""
        self.model_definition(name)
        await self.audit.write(audit)
        self.definitions[name]["scaling"] |= change
        return self.definitions[name]["scaling"]

    async def retry_model(self, name: str, audit: AuditEvent) -> None:
        """Note the name."""
        self.model_definition(name)
        await self.audit.write(audit)
        self.retried.append(name)

    async def set_cordon(self, node_id: str, cordoned: bool, audit: AuditEvent) -> None:
        """Note the node."""
        await self.audit.write(audit)
        (self.cordoned.add if cordoned else self.cordoned.discard)(node_id)

    async def node_logs(self, node_id: str, shard_id: str, lines: int) -> tuple[Sequence[str], bool]:
        """Return the last lines."""
        if shard_id not in ("", *(shard.id for replica in self.replicas for shard in replica.shards)):
            raise Refused(404, f"there is no shard {shard_id} on {node_id}")
        return self.log_lines[-lines:], lines < len(self.log_lines)


def _definition(name: str) -> dict[str, Any]:
    return {
        "name": name, "source": "/models/tiny.gguf", "profiles": [{"name": "cpu", "engine": "llamacpp"}],
        "scaling": {"min": 1, "max": 1, "idle_timeout": 900.0},
    }


def _replica(replica_id: str, model: str) -> ReplicaView:
    shard = ShardView(id=f"{replica_id}/0", rank=0, node="n1", port=20000, state="ready")
    return ReplicaView(
        id=replica_id, model=model, profile="cpu", engine="llamacpp", state="ready", node="n1", pool=model,
        shards=(shard,), started_at="2026-01-31T12:00:00Z", idle_seconds=5,
    )
