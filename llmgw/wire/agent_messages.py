"""The messages of the agent protocol (20 sections 3 and 4), each one map with its tag in `t`.

What an agent sends travels bare; what a control plane sends is wrapped in `Control`. The structs of messages that
this release neither sends nor acts upon come with their senders: their tags are unknown here and are skipped.
"""

from typing import Annotated

from msgspec import Meta, Struct

from llmgw.wire.agent_structs import (
    GPU,
    HCA,
    IMEX,
    CachedWeight,
    Compute,
    EngineProfile,
    FabricAttachment,
    FetchProgress,
    NodeLoad,
    ProvisionStatus,
    RunningShard,
    ShardId,
    ShardState,
)

NODE_ID_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}\Z"
NodeId = Annotated[str, Meta(pattern=NODE_ID_PATTERN)]


class _Message(Struct, tag_field="t", omit_defaults=True, frozen=True):
    """What every message shares: a tagged map that leaves out its defaults."""


class Register(_Message, tag="register", kw_only=True, frozen=True):
    """Everything about a node, first on each link: a control plane can rebuild its knowledge from it alone (P-22)."""

    node_id: NodeId = ""
    version: str = ""
    hostname: str = ""
    os: str = ""
    kernel: str = ""
    arch: str = ""
    cpu_model: str = ""
    cpu_count: int = 0
    memory_total_bytes: int = 0
    mgmt_addr: str = ""
    mgmt_interface: str = ""
    labels: dict[str, str] = {}
    gpus: list[GPU] = []
    hcas: list[HCA] = []
    fabrics: list[FabricAttachment] = []
    disk_total_bytes: int = 0
    disk_free_bytes: int = 0
    weights: list[CachedWeight] = []
    engine_versions: dict[str, str] = {}
    engines_probed: bool = False
    installable_engines: list[str] = []
    provision: list[ProvisionStatus] = []
    features: list[str] = []
    running_shards: list[RunningShard] = []
    started_unix: int = 0


class Heartbeat(_Message, tag="heartbeat", kw_only=True, frozen=True):
    """What changes on a node by itself (4.5). `seq` rises strictly on a link.

    The two GPU lists have one entry per GPU in Register's order, MiB; an empty foreign list is "not measured", which
    is not zero (P-45).
    """

    node_id: NodeId = ""
    seq: int = 0
    sent_unix: float = 0.0
    gpu_memory_used_mb: list[int] = []
    gpu_foreign_memory_mb: list[int] = []
    disk_total_bytes: int = 0
    disk_free_bytes: int = 0
    weights: list[CachedWeight] = []
    engine_versions: dict[str, str] = {}
    engines_probed: bool = False
    provision: list[ProvisionStatus] = []
    subnet_managers: dict[str, str] = {}
    subnet_manager_errors: dict[str, str] = {}
    load: NodeLoad = NodeLoad()
    imex: IMEX | None = None
    cpu_count: int = 0


class ShardStatus(_Message, tag="shard", kw_only=True, frozen=True):
    """A shard's transition, its download's progress, or what it computes on (4.7). `last_output`: at most 20 lines."""

    node_id: NodeId = ""
    replica_id: ShardId = ""
    shard_id: ShardId = ""
    state: ShardState = ShardState.UNSPECIFIED
    error: str = ""
    exit_code: int = 0
    last_output: list[str] = []
    fetch: FetchProgress | None = None
    compute: Compute | None = None


class LogsReply(_Message, tag="logs", kw_only=True, frozen=True):
    """Log lines asked for, oldest first, cut to 1 MiB (P-61)."""

    request_id: str = ""
    lines: list[str] = []
    truncated: bool = False
    error: str = ""


class Registered(_Message, tag="registered", kw_only=True, frozen=True):
    """The answer to Register. `heartbeat_interval_ms` 0 leaves the agent its own."""

    node_id: str = ""
    control_plane: str = ""
    leader: bool = False
    term: int = 0
    heartbeat_interval_ms: int = 0


class Bye(_Message, tag="bye", kw_only=True, frozen=True):
    """Last on a stream (P-18): forbidden, revoked, replaced, not_leader, bad_message or shutdown, and why."""

    code: str = ""
    reason: str = ""


class ControlPlanes(_Message, tag="control_planes", kw_only=True, frozen=True):
    """The control planes an agent may dial besides those it was configured with (P-70)."""

    servers: list[str] = []


class StartShard(_Message, tag="start", kw_only=True, frozen=True):
    """Run one shard (4.8). `threads` 0: the engine's own default; `ready_timeout_ms` 0: the agent's."""

    replica_id: ShardId = ""
    shard_id: ShardId = ""
    model: str = ""
    rank: int = 0
    nnodes: int = 0
    gpu_indices: list[int] = []
    hcas: list[str] = []
    fabric: str = ""
    mgmt_interface: str = ""
    leader_addr: str = ""
    leader_port: int = 0
    http_port: int = 0
    profile: EngineProfile = EngineProfile()
    profile_fp: str = ""
    pool: str = ""
    api_key: str = ""
    threads: int = 0
    ready_timeout_ms: int = 0


class StopShard(_Message, tag="stop", kw_only=True, frozen=True):
    """Stop one shard. `grace_ms` 0: the agent's default."""

    shard_id: ShardId = ""
    grace_ms: int = 0
    reason: str = ""


class DrainShard(_Message, tag="drain", kw_only=True, frozen=True):
    """Mark a shard as draining; it serves on until `stop` (P-60b)."""

    shard_id: ShardId = ""


class LogsRequest(_Message, tag="logs", kw_only=True, frozen=True):
    """Ask for log lines of a shard, or of the agent itself when `shard_id` is empty. `lines` is 5000 at most."""

    request_id: str = ""
    shard_id: ShardId = ""
    lines: int = 200


class RemoveWeights(_Message, tag="remove_weights", kw_only=True, frozen=True):
    """Delete these paths of the weights cache; an empty list means nothing (P-62)."""

    paths: list[str] = []


AgentMessage = Register | Heartbeat | ShardStatus | LogsReply
Command = Registered | Bye | ControlPlanes | StartShard | StopShard | DrainShard | LogsRequest | RemoveWeights


class Control(Struct, omit_defaults=True, kw_only=True, frozen=True):
    """The envelope of everything a control plane sends: W3C trace context, and the leader's fencing term (P-44)."""

    msg: Command
    trace: dict[str, str] = {}
    term: int = 0
