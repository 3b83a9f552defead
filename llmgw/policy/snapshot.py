"""What the leader knows at one moment, as values: the input of every decision of this package.

Times `*_s` are seconds of one monotonic clock, the snapshot's own `now_s` among them; `now_unix` is the calendar's.
Nothing here reads a clock: the same snapshot gives the same plan.
"""

from collections.abc import Mapping
from datetime import UTC, tzinfo

from msgspec import Struct

from llmgw.config.model import ModelDefinition

READY, CORDONED, DRAINING_NODE, UNREACHABLE, LOST = "ready", "cordoned", "draining", "unreachable", "lost"
"""States of a node (P-32). A lost one is shown as unreachable."""

STARTING, SERVING, DRAINING, STOPPING = "starting", "ready", "draining", "stopping"
"""Phases of a replica that holds a reservation. A failed one holds none and is gone from the snapshot."""


class GPUSeen(Struct, frozen=True):
    """One GPU or MIG instance. `problem`: why nothing may be placed on it, "" when healthy."""

    index: int
    klass: str
    memory_mb: int = 0
    problem: str = ""
    nvlink_peers: tuple[int, ...] = ()
    numa_node: int = -1


class NodeSeen(Struct, frozen=True):
    """A node. `weights`: source -> bytes of what its cache holds. `installing`: engines on their way."""

    id: str
    state: str = READY
    labels: Mapping[str, str] = {}
    engines: Mapping[str, str] = {}
    engines_probed: bool = True
    installing: frozenset[str] = frozenset()
    cpu_count: int = 0
    memory_bytes: int = 0
    gpus: tuple[GPUSeen, ...] = ()
    weights: Mapping[str, int] = {}


class Share(Struct, frozen=True):
    """What one shard holds of a node."""

    node: str
    gpus: tuple[int, ...] = ()
    cores: int = 0
    memory_mb: int = 0


class ReplicaSeen(Struct, frozen=True):
    """A replica that holds resources.

    `is_quiet`: every gateway has said, since it drains, that nothing is in flight.
    """

    id: str
    model: str
    profile: str
    fingerprint: str
    phase: str
    shares: tuple[Share, ...]
    started_s: float = 0.0
    ready_s: float | None = None
    draining_s: float | None = None
    idle_s: float = 0.0
    inflight: int = 0
    is_quiet: bool = False


class Failures(Struct, frozen=True):
    """What went wrong with a model lately (L-60..L-63). `nodes`: node -> (when, why) of the last failure there."""

    count: int = 0
    error: str = ""
    failed_s: float = 0.0
    retry_s: float = 0.0
    is_parked: bool = False
    nodes: Mapping[str, tuple[float, str]] = {}


class ScaleState(Struct, frozen=True):
    """What scaling remembers of a model between passes."""

    target: int = 0
    high_since_s: float | None = None
    low_since_s: float | None = None
    last_up_s: float | None = None
    last_down_s: float | None = None


class Load(Struct, frozen=True):
    """Demand of a model: requests waiting and in flight, and when a request last came or was in flight."""

    waiting: int = 0
    inflight: int = 0
    last_used_s: float | None = None


class Memory(Struct, frozen=True):
    """What a pass hands to the next about one model."""

    scale: ScaleState = ScaleState()
    short_since_s: float | None = None
    room_since_s: float | None = None


class ModelSeen(Struct, frozen=True):
    """A model of the catalog with what is known of it."""

    definition: ModelDefinition
    load: Load = Load()
    failures: Failures = Failures()
    memory: Memory = Memory()


class Snapshot(Struct, frozen=True):
    """Everything one pass decides from. `is_settling`: agents of a new leader may still report running replicas."""

    now_s: float
    now_unix: float
    nodes: tuple[NodeSeen, ...] = ()
    models: tuple[ModelSeen, ...] = ()
    replicas: tuple[ReplicaSeen, ...] = ()
    is_settling: bool = False
    zone: tzinfo = UTC
    drain_timeout_s: float = 600.0
