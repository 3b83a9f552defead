"""The route table: every path of the admin API once, and all that is derived from it.

The server registers these, the OpenAPI document describes them, the client looks them up by operation, tests walk
them. The functions that answer are in `operations`, by the same names; nothing here imports a server.
"""

from dataclasses import dataclass, field
from typing import Any

from llmgw.admin.bodies import (
    Body,
    HealthView,
    LogsView,
    NoBody,
    ScaleBody,
    VersionView,
    WhoamiView,
)
from llmgw.wire.admin import (
    AuditEventView,
    ModelLine,
    NodeView,
    PlacementView,
    ReplicaView,
    RequestView,
    Summary,
)

API = "/api/v1"
"""What every path of the table but the plain ones begins with."""


@dataclass(frozen=True)
class Query:
    """A query parameter. `kind` is `string`, `integer` or `boolean`; `choices` are all it may be, when listed."""

    name: str
    meaning: str
    kind: str = "string"
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Route:
    """One method of one path.

    `answer` is a struct, `list[struct]`, `dict` for a document, None for an empty answer. `body` is the struct of a
    change; `dict` when the whole object is checked elsewhere. `action` names a change in the audit log, with the kind
    of its target; `command` is the ctl command that uses it. `statuses` are the refusals beyond those that every route
    has. `needs_store` says that it cannot answer while the store is away.
    """

    operation: str
    method: str
    path: str
    summary: str
    answer: Any
    command: str
    body: type[Body] | type[dict[str, Any]] | None = None
    query: tuple[Query, ...] = ()
    action: str = ""
    target: str = ""
    status: int = 200
    statuses: tuple[int, ...] = ()
    needs_store: bool = False
    parameters: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def is_change(self) -> bool:
        """Return whether it is audited and must be sent as JSON."""
        return self.method not in ("GET", "HEAD")


_NODE = {"id": "The node's id."}
_MODEL = {"name": "The model's name."}

ROUTES: tuple[Route, ...] = (
    Route("summary", "GET", "/summary", "The fleet in one answer", Summary, "status"),
    Route(
        "list_nodes", "GET", "/nodes", "Every node, by id", list[NodeView], "nodes",
        query=(Query("state", "Only nodes in that state.", choices=("ready", "cordoned", "draining", "unreachable")),),
        statuses=(400,),
    ),
    Route(
        "show_node", "GET", "/nodes/{id}", "One node, with its cards", NodeView, "nodes NODE",
        statuses=(404,), parameters=_NODE,
    ),
    Route(
        "cordon", "POST", "/nodes/{id}/cordon", "Keep new replicas off a node", NodeView, "cordon NODE",
        body=NoBody, action="node.cordon", target="node", statuses=(404,), needs_store=True, parameters=_NODE,
    ),
    Route(
        "uncordon", "POST", "/nodes/{id}/uncordon", "Let new replicas onto a node again", NodeView,
        "uncordon NODE", body=NoBody, action="node.uncordon", target="node", statuses=(404,), needs_store=True,
        parameters=_NODE,
    ),
    Route(
        "node_logs", "GET", "/nodes/{id}/logs", "The end of an agent's log, or of one of its shards'", LogsView,
        "logs NODE|REPLICA", parameters=_NODE, statuses=(400, 404, 503),
        query=(
            Query("lines", "How many lines; 200 unless told, at most 5000.", "integer"),
            Query("shard", "Id of the shard whose log is wanted; the agent's own without it."),
        ),
    ),
    Route(
        "list_replicas", "GET", "/replicas", "Every replica, by id", list[ReplicaView], "replicas",
        query=(Query("model", "Only replicas of that model."),),
    ),
    Route("list_models", "GET", "/models", "Every model, by name", list[ModelLine], "models"),
    Route(
        "add_model", "POST", "/models", "Add a model to the catalog", dict, "model add FILE",
        body=dict, action="model.add", target="model", status=201, statuses=(409,), needs_store=True,
    ),
    Route(
        "show_model", "GET", "/models/{name}", "A model's definition with defaults filled, and its state", dict,
        "model show NAME", statuses=(404,), parameters=_MODEL,
    ),
    Route(
        "remove_model", "DELETE", "/models/{name}", "Remove a model; its replicas drain and stop", None,
        "model remove NAME", body=NoBody, action="model.remove", target="model", status=204, statuses=(404, 409),
        needs_store=True, parameters=_MODEL,
        query=(Query("force", "Also when another model names it as its fallback.", "boolean"),),
    ),
    Route(
        "scale_model", "POST", "/models/{name}/scale", "Change how many replicas a model has", dict, "scale MODEL",
        body=ScaleBody, action="model.scale", target="model", statuses=(404,), needs_store=True, parameters=_MODEL,
    ),
    Route(
        "retry_model", "POST", "/models/{name}/retry", "Try a parked model again", None, "model retry NAME",
        body=NoBody, action="model.retry", target="model", status=204, statuses=(404,), needs_store=True,
        parameters=_MODEL,
    ),
    Route(
        "placement", "GET", "/models/{name}/placement", "Why a model is where it is, or why not", PlacementView,
        "explain-placement MODEL", statuses=(404,), parameters=_MODEL,
    ),
    Route(
        "show_request", "GET", "/requests/{id}", "The accounting of one request, oldest row first",
        list[RequestView], "request ID", statuses=(404, 501), needs_store=True,
        parameters={"id": "The request's x-request-id."},
        query=(Query("body", "Also the text of the request, where it was kept.", "boolean"),),
    ),
    Route(
        "list_audit", "GET", "/audit", "Audit events, newest first", list[AuditEventView], "audit",
        statuses=(400, 501), needs_store=True,
        query=(
            Query("since", "Not before: a time, or a duration before now like `24h`."),
            Query("until", "Before: a time, or a duration before now."),
            Query("actor", "Only this actor's."),
            Query("source", "Only from there.", choices=("api", "console", "web", "cli", "scim", "oidc", "system")),
            Query("action", "Only this action; `model.*` for all that begin so."),
            Query("target", "Only to this, like `model:chat`."),
            Query("result", "Only with this result.", choices=("ok", "refused", "failed")),
            Query("limit", "At most so many; 200 unless told, at most 1000.", "integer"),
            Query("before", "Only events with a lower id: the last id of the page before.", "integer"),
        ),
    ),
    Route("version", "GET", "/version", "The release and name of what answers", VersionView, "version"),
    Route("whoami", "GET", "/whoami", "The actor as read", WhoamiView, ""),
    Route("openapi", "GET", "/openapi.json", "This API's description (OpenAPI 3.1)", dict, ""),
)

PLAIN_ROUTES: tuple[Route, ...] = (
    Route("health", "GET", "/health", "That the process answers", HealthView, ""),
    Route("metrics", "GET", "/metrics", "Metrics in Prometheus text format", str, ""),
)
"""What else is on the listener, outside of /api and without a token (C-02)."""


def by_operation(operation: str) -> Route:
    """Return the route of an operation. Raises KeyError for one that does not exist: a mistake of ours."""
    for route in ROUTES:
        if route.operation == operation:
            return route
    raise KeyError(operation)
