"""What each route does: one function per operation of the table, under the operation's name.

They ask the leader or the store and shape the answer. By the time one runs, the request has passed every rule of the
listener and its body is of the right shape; it may still raise Refused, and StoreUnavailable.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from llmgw.admin import bodies
from llmgw.admin.audit import Attempt, AuditAsk, AuditReader, AuditTrail
from llmgw.config.duration import parse_duration_s, render_duration
from llmgw.config.refusal import Refused
from llmgw.ports import AuditEvent, FleetAdmin, RequestRecords, UsageRow
from llmgw.wire.admin import (
    AuditEventView,
    ModelLine,
    NodeView,
    PlacementView,
    ReplicaView,
    RequestView,
    rfc3339,
)

_MOST_LINES = 5000
_MOST_EVENTS = 1000


@dataclass(frozen=True)
class Services:
    """What the operations ask. `records` and `audit_reader` are None where there is no store."""

    fleet: FleetAdmin
    records: RequestRecords | None
    audit_reader: AuditReader | None
    trail: AuditTrail
    name: str
    release: str
    commit: str
    leading: Callable[[], bool]
    wall: Callable[[], float]
    document: Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """One request, read and checked."""

    services: Services
    params: Mapping[str, str]
    query: Mapping[str, Any]
    fields: Mapping[str, Any]
    body: Any
    actor: str
    attempt: Attempt
    status: int

    @property
    def fleet(self) -> FleetAdmin:
        """The leader."""
        return self.services.fleet

    def event(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> AuditEvent:
        """Return the audit event of this change, for whoever makes it."""
        return self.services.trail.prepare(self.attempt, before, after, self.status)


Operation = Callable[[Call], Awaitable[Any]]


async def summary(call: Call) -> Any:
    """The fleet in one answer, with the release of this process."""
    found = call.fleet.summary()
    return msgspec.structs.replace(found, version=found.version or call.services.release)


async def list_nodes(call: Call) -> Sequence[NodeView]:
    """Every node, without its cards."""
    wanted = call.query.get("state")
    nodes = [msgspec.structs.replace(node, gpus=()) for node in call.fleet.nodes()]
    return [node for node in nodes if wanted in (None, node.state)]


async def show_node(call: Call) -> NodeView:
    """One node with its cards."""
    return _node(call.fleet, call.params["id"])


async def cordon(call: Call) -> NodeView:
    """Keep new replicas off a node."""
    return await _set_cordon(call, cordoned=True)


async def uncordon(call: Call) -> NodeView:
    """Let new replicas onto it again."""
    return await _set_cordon(call, cordoned=False)


async def _set_cordon(call: Call, *, cordoned: bool) -> NodeView:
    node = _node(call.fleet, call.params["id"])
    event = call.event({"cordoned": node.state == "cordoned"}, {"cordoned": cordoned})
    await call.fleet.set_cordon(node.id, cordoned, event)
    return _node(call.fleet, node.id)


async def node_logs(call: Call) -> bodies.LogsView:
    """The end of a log."""
    lines, shard = call.query.get("lines", 200), call.query.get("shard", "")
    if not 1 <= lines <= _MOST_LINES:
        raise Refused(400, f"lines is {lines}; ask for 1 to {_MOST_LINES}")
    node = _node(call.fleet, call.params["id"])
    found, cut = await call.fleet.node_logs(node.id, shard, lines)
    return bodies.LogsView(node=node.id, shard=shard, lines=tuple(found), cut=cut)


async def list_replicas(call: Call) -> Sequence[ReplicaView]:
    """Every replica, or one model's."""
    return call.fleet.replica_views(call.query.get("model"))


async def list_models(call: Call) -> Sequence[ModelLine]:
    """Every model."""
    return call.fleet.model_lines()


async def show_model(call: Call) -> Mapping[str, Any]:
    """One definition and its state."""
    return call.fleet.model_definition(call.params["name"])


async def add_model(call: Call) -> Mapping[str, Any]:
    """Keep a new model."""
    return await call.fleet.add_model(call.fields, call.event({}, call.fields))


async def remove_model(call: Call) -> None:
    """Forget a model."""
    name = call.params["name"]
    before = dict(call.fleet.model_definition(name))
    before.pop("state", None)
    await call.fleet.remove_model(name, call.query.get("force", False), call.event(before, {}))


async def scale_model(call: Call) -> Mapping[str, Any]:
    """Change a model's bounds; answers the scaling in force."""
    name, body = call.params["name"], call.body
    change = {key: value for key, value in msgspec.structs.asdict(body).items() if value is not None}
    if not change:
        raise Refused(400, "nothing to change; give min, max or idle_timeout")
    if "min" in change and "max" in change and change["max"] < change["min"] and change["max"] != 0:
        raise Refused(400, f"max is {change['max']} and below min, which is {change['min']}")
    scaling = call.fleet.model_definition(name).get("scaling", {})
    before = {key: scaling[key] for key in change if key in scaling}
    found = dict(await call.fleet.scale_model(name, change, call.event(before, call.fields)))
    idle = found.get("idle_timeout")
    return found if idle is None or isinstance(idle, str) else {**found, "idle_timeout": render_duration(idle)}


async def retry_model(call: Call) -> None:
    """Try a parked model again."""
    await call.fleet.retry_model(call.params["name"], call.event({}, {}))


async def placement(call: Call) -> PlacementView:
    """Why a model is where it is."""
    return call.fleet.placement(call.params["name"])


async def show_request(call: Call) -> Sequence[RequestView]:
    """The accounting of one request."""
    records = call.services.records
    if records is None:
        raise Refused(501, "requests are not recorded here; set auth.store")
    rows = await records.by_request_id(call.params["id"])
    if not rows:
        raise Refused(
            404,
            f"no request {call.params['id']} is recorded; the id is the answer's x-request-id, "
            "and the record follows a moment after the answer",
        )
    if call.query.get("body"):
        raise Refused(404, "the text of that request was not kept; this release keeps none")
    return [_request(row) for row in rows]


async def list_audit(call: Call) -> Sequence[AuditEventView]:
    """Audit events."""
    reader = call.services.audit_reader
    if reader is None:
        raise Refused(501, "there is no audit log here; set auth.store")
    query = dict(call.query)
    limit = query.pop("limit", 200)
    if not 1 <= limit <= _MOST_EVENTS:
        raise Refused(400, f"limit is {limit}; ask for 1 to {_MOST_EVENTS}")
    now = call.services.wall()
    since, until = (
        None if value is None else moment_unix(value, name, now)
        for name, value in (("since", query.pop("since", None)), ("until", query.pop("until", None)))
    )
    return await reader.query(AuditAsk(since_unix=since, until_unix=until, limit=limit, **query))


async def version(call: Call) -> bodies.VersionView:
    """What answers."""
    own = call.services
    return bodies.VersionView(release=own.release, commit=own.commit, name=own.name, leader=own.leading())


async def whoami(call: Call) -> bodies.WhoamiView:
    """Who asks."""
    return bodies.WhoamiView(actor=call.actor)


async def openapi(call: Call) -> Mapping[str, Any]:
    """The document."""
    return call.services.document


def moment_unix(text: str, name: str, now_unix: float) -> float:
    """Return a time given as RFC 3339 or as a duration before now, in Unix seconds. Raises Refused(400)."""
    try:
        return now_unix - parse_duration_s(text, name)
    except Refused:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise Refused(400, f'{name} {text!r} is neither a time like 2026-01-31T12:00:00Z nor a duration like "24h"')
    return at.timestamp()


def _node(fleet: FleetAdmin, node_id: str) -> NodeView:
    for node in fleet.nodes():
        if node.id == node_id:
            return node
    raise Refused(404, f"there is no node {node_id}; `llmgw ctl nodes` lists them")


_SHARED = {field.name for field in msgspec.structs.fields(UsageRow)} & {
    field.name for field in msgspec.structs.fields(RequestView)
}


def _request(row: UsageRow) -> RequestView:
    return RequestView(at=rfc3339(row.at_unix), **{name: getattr(row, name) for name in _SHARED})


OPERATIONS: Mapping[str, Operation] = {
    function.__name__: function
    for function in (
        summary, list_nodes, show_node, cordon, uncordon, node_logs, list_replicas, list_models, add_model,
        show_model, remove_model, scale_model, retry_model, placement, show_request, list_audit, version, whoami,
        openapi,
    )
}
"""Each operation of the route table."""
