"""How gateway, control, agent, people and the faces meet: small Protocols, and the values that cross them.

Nothing here does anything. A room that needs another room's service takes the Protocol; the composition root in
`ops` hands it the object. The four verbs of `ControlPort` are all that a gateway ever asks of the rest, so that it can
run in the control process, in a process of its own, or (through the store) beside another control plane.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec


class StoreUnavailable(Exception):
    """The database cannot be asked now. Known facts stay valid; unknown ones are answered 503, never 401 (F-15)."""


class Principal(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who a key speaks for. Times are Unix seconds; ids are the store's, "" where there is none."""

    key_id: str
    kind: str
    hash: str
    org_id: str
    team_id: str
    project_id: str
    user_id: str
    name: str = ""
    prefix: str = ""
    band: str = "silver"
    profile: str = "chat"
    models: tuple[str, ...] | None = None
    expires_unix: float | None = None


class ReplicaRoute(msgspec.Struct, frozen=True, omit_defaults=True):
    """One replica a gateway may send to: where it listens and how its engine is scraped."""

    id: str
    model: str
    pool: str
    engine: str
    host: str
    port: int
    api_key: str
    served_name: str
    metrics_path: str
    draining: bool = False


class ModelRoute(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model clients may name, and what they are told while it cannot answer.

    `status` is a word of L-95: serving, starting, on demand, waiting for room, short, parked, stopped. `created_unix`
    is when its definition was added. `adapters` are names in catalog order: the index is llama.cpp's adapter id.
    """

    name: str
    status: str
    created_unix: int
    aliases: tuple[str, ...] = ()
    adapters: tuple[str, ...] = ()
    adapter_scales: tuple[float, ...] = ()
    role: str = ""
    capabilities: tuple[str, ...] = ()
    context_length: int = 0
    reason: str = ""
    on_demand: bool = False
    fallbacks: tuple[str, ...] = ()


class GatewaySettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """The `router` and `auth` figures a gateway works by. Durations in seconds, sizes in bytes."""

    keys_required: bool = True
    inject_usage: bool = True
    max_body_bytes: int = 33_554_432
    scrape_interval_s: float = 2.0
    dial_s: float = 5.0
    first_byte_s: float = 600.0
    idle_s: float = 120.0
    total_s: float = 3600.0
    load_wait_s: float = 300.0
    prompt_price_micros: Mapping[str, int] = {}
    completion_price_micros: Mapping[str, int] = {}
    default_prompt_price_micros: int = 0
    default_completion_price_micros: int = 0
    trusted_proxies: tuple[str, ...] = ()


class Snapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything slow a gateway needs, as of `version`. `tenancy_epoch` moves when any key or owner changed.

    `epoch_bound` says the gateway may keep principals it resolved only while the epoch stands (T-18).
    """

    version: int
    models: tuple[ModelRoute, ...] = ()
    replicas: tuple[ReplicaRoute, ...] = ()
    settings: GatewaySettings = GatewaySettings()
    tenancy_epoch: int = 0
    leading: bool = True
    store_away: bool = False


class Found(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of `lookup`: the principal, or none for a key nobody has (revoked and unknown read alike, T-12)."""

    principal: Principal | None = None
    tenancy_epoch: int = 0


class LeaseAsk(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ask for allowance of one counter: `counter` names it (`rpm:KEY`), `units` is how much is wanted."""

    counter: str
    units: int
    holder: str
    returned: int = 0


class LeaseGrant(msgspec.Struct, frozen=True, omit_defaults=True):
    """`units` may be spent until `valid_s` seconds from receipt; `unlimited` when no limit applies to the counter."""

    units: int
    valid_s: float
    unlimited: bool = False


class UsageRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request's accounting, T-34. Never text. `at_unix` is its start; times in whole milliseconds."""

    id: str
    request_id: str
    at_unix: float
    endpoint: str
    stream: bool
    key_id: str
    kind: str
    project_id: str
    team_id: str
    org_id: str
    user_id: str
    model: str
    served_model: str = ""
    replica_id: str = ""
    variant: str = ""
    external: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    tokens_estimated: bool = False
    cost_micros: int = 0
    status: int = 0
    outcome: str = "ok"
    queue_ms: int = 0
    ttft_ms: int | None = None
    latency_ms: int = 0
    end_user: str = ""
    tags: str = ""
    cache_hit: bool = False
    guard_action: str = ""
    guard_policy: str = ""
    guard_category: str = ""
    guard_rule: str = ""
    guard_ms: int = 0
    band: str = ""


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a gateway tells: rows to keep, requests in flight and last use per replica, demand per model.

    `inflight`: replica id -> requests now. `last_used_unix`: replica id -> time of its last request.
    `waiting`: model -> requests held for a replica now. `arrived`: model -> requests since the last report.
    `failed`: replica id -> connects that failed since the last report.
    """

    gateway: str
    rows: tuple[UsageRow, ...] = ()
    inflight: Mapping[str, int] = {}
    last_used_unix: Mapping[str, float] = {}
    waiting: Mapping[str, int] = {}
    arrived: Mapping[str, int] = {}
    failed: Mapping[str, int] = {}


class ControlPort(Protocol):
    """The four verbs of architecture.md section 5. Every one may be cancelled without harm."""

    async def feed(self, after: int) -> Snapshot:
        """Wait for and return the first snapshot whose version is above `after` (0: the current one, at once)."""
        ...

    async def lookup(self, key_hash: str) -> Found:
        """Resolve a key by the SHA-256 hex of its text. Raises StoreUnavailable."""
        ...

    async def lease(self, ask: LeaseAsk) -> LeaseGrant:
        """Take allowance, returning what an earlier lease left unspent. Raises StoreUnavailable."""
        ...

    async def report(self, report: Report) -> None:
        """Tell what happened. Never blocks on the store."""
        ...


class KeyLookup(Protocol):
    """Resolves keys; given to the control port by the store's side."""

    async def by_hash(self, key_hash: str) -> Principal | None:
        """Return the principal of a usable key (not revoked, not expired, owner active). Raises StoreUnavailable."""
        ...

    def epoch(self) -> int:
        """Return the tenancy epoch last seen."""
        ...

    def store_away(self) -> bool:
        """Return whether the store could not be asked the last time."""
        ...


class UsageSink(Protocol):
    """Takes usage rows and never blocks (T-36)."""

    def put(self, row: UsageRow) -> None:
        """Queue one row; a full buffer drops and counts it."""
        ...


class Fleet(Protocol):
    """What the leader shows the control port: routes, and the demand it is told."""

    def version(self) -> int:
        """Return a number that grows whenever routes or models change."""
        ...

    async def changed(self, after: int) -> int:
        """Wait until `version() > after` and return it."""
        ...

    def models(self) -> tuple[ModelRoute, ...]:
        """Return the models clients may name, sorted by name."""
        ...

    def replicas(self) -> tuple[ReplicaRoute, ...]:
        """Return the replicas that may be sent requests (ready, or draining and still finishing)."""
        ...

    def is_leading(self) -> bool:
        """Return whether this control plane leads."""
        ...

    def demand(self, report: Report) -> None:
        """Take in-flight, last use, waiting and arrivals of one gateway."""
        ...


class AuditEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One audit record, C-55. `before`, `after`: the changed fields' values, secrets already struck out (C-57)."""

    at_unix: float
    actor: str
    source: str
    action: str
    target: str
    result: str
    status: int = 0
    error: str = ""
    address: str = ""
    control_plane: str = ""
    fields: tuple[str, ...] = ()
    before: Mapping[str, Any] = {}
    after: Mapping[str, Any] = {}


class AuditLog(Protocol):
    """Writes audit events that do not travel in the change's own transaction."""

    async def write(self, event: AuditEvent) -> None:
        """Append one event. Raises StoreUnavailable."""
        ...


class FleetAdmin(Protocol):
    """What the admin API asks of the leader. Shapes are the structs of `llmgw.wire.admin`, given as such.

    A change takes the audit event that the API prepared (`result` "ok"); where the change is in the store, both are
    written in one transaction. Every method that changes raises `llmgw.config.refusal.Refused` before anything is
    written, and StoreUnavailable.
    """

    def nodes(self) -> Sequence[Any]:
        """Return the NodeView of every node known, by id."""
        ...

    def model_lines(self) -> Sequence[Any]:
        """Return the ModelLine of every model, by name."""
        ...

    def model_definition(self, name: str) -> Mapping[str, Any]:
        """Return one definition as plain data with defaults filled, plus `state`. Refused(404) when unknown."""
        ...

    def replica_views(self, model: str | None) -> Sequence[Any]:
        """Return the ReplicaView of every replica, or of one model's."""
        ...

    def placement(self, name: str) -> Any:
        """Return the PlacementView of one model (L-93). Refused(404) when unknown."""
        ...

    def summary(self) -> Any:
        """Return the Summary of chapter 32 section 3, as far as its parts exist."""
        ...

    async def add_model(self, definition: Mapping[str, Any], audit: AuditEvent) -> Mapping[str, Any]:
        """Validate and keep a model; return it with defaults filled. Refused 400, 409."""
        ...

    async def remove_model(self, name: str, force: bool, audit: AuditEvent) -> None:
        """Forget a model; its replicas drain and stop. Refused 404, 409."""
        ...

    async def scale_model(self, name: str, change: Mapping[str, Any], audit: AuditEvent) -> Mapping[str, Any]:
        """Set any of min, max, idle_timeout (seconds). Returns the scaling in force. Refused 400, 404."""
        ...

    async def retry_model(self, name: str, audit: AuditEvent) -> None:
        """Clear a model's failures and parked state. Refused 404."""
        ...

    async def set_cordon(self, node_id: str, cordoned: bool, audit: AuditEvent) -> None:
        """Keep new replicas off a node, or stop doing so. Refused 404."""
        ...

    async def node_logs(self, node_id: str, shard_id: str, lines: int) -> tuple[Sequence[str], bool]:
        """Return log lines of a shard ("" = the agent's own) and whether they were cut. Refused 404, 503."""
        ...


class RequestRecords(Protocol):
    """Reads usage rows back for `ctl request`."""

    async def by_request_id(self, request_id: str) -> Sequence[UsageRow]:
        """Return the rows of one request id, oldest first."""
        ...
