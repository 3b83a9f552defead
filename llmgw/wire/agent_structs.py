"""The values inside the agent protocol's messages (20 sections 4.2 to 4.9): plain maps on the wire, structs here.

Every field has a default, since a field absent on the wire means its default (P-41); where zero and "not reported"
differ the default is -1. Sizes are in the unit of the name (`_mb` is MiB), times `_unix` in seconds, durations `_ms`
(P-42). Unknown fields are ignored, so that older and newer releases mix (P-40).
"""

from enum import IntEnum
from typing import Annotated

from msgspec import Meta, Struct, field

ShardId = Annotated[str, Meta(max_length=128)]
"""Id of a shard or a replica, at most 128 characters (P-43)."""


class ShardState(IntEnum):
    """Where a shard stands (4.7). UNSPECIFIED in a report is no transition: it carries compute or progress only."""

    UNSPECIFIED = 0
    PENDING = 1
    FETCHING = 2
    STARTING = 3
    READY = 4
    DRAINING = 5
    STOPPING = 6
    STOPPED = 7
    FAILED = 8


class _Value(Struct, omit_defaults=True, frozen=True):
    """What every nested struct shares: a map that leaves out its defaults."""


class Compute(_Value, kw_only=True, frozen=True):
    """What an engine said it computes on. `layers_*` are both 0 when it did not say."""

    backend: str = ""
    devices: list[str] = []
    layers_offloaded: int = 0
    layers_total: int = 0


class FetchProgress(_Value, kw_only=True, frozen=True):
    """How far a download is. `total_bytes` 0 means unknown."""

    source: str = ""
    done_bytes: int = 0
    total_bytes: int = 0


class RunningShard(_Value, kw_only=True, frozen=True):
    """A shard that runs when the agent registers (4.2): enough for a control plane to adopt it."""

    shard_id: ShardId = ""
    replica_id: ShardId = ""
    model: str = ""
    profile: str = ""
    engine: str = ""
    rank: int = 0
    nnodes: int = 0
    gpu_indices: list[int] = []
    http_port: int = 0
    state: ShardState = ShardState.UNSPECIFIED
    pool: str = ""
    fabric: str = ""
    leader_addr: str = ""
    leader_port: int = 0
    profile_fp: str = ""
    compute: Compute | None = None


class CachedWeight(_Value, kw_only=True, frozen=True):
    """A file or folder of the weights cache."""

    source: str = ""
    path: str = ""
    bytes: int = 0
    in_use: bool = False


class GPUProblem(_Value, kw_only=True, frozen=True):
    """A reason why nothing is placed on a GPU."""

    code: str = ""
    text: str = ""


class MIGDevice(_Value, kw_only=True, frozen=True):
    """The MIG instance that a GPU entry stands for. Instance ids are -1 when unknown."""

    parent_index: int = 0
    parent_uuid: str = ""
    parent_memory_total_mb: int = 0
    device: int = 0
    profile: str = ""
    gpu_instance: int = -1
    compute_instance: int = -1


class GPU(_Value, kw_only=True, frozen=True):
    """A whole card, or one MIG instance in its place (4.3). `gpu_class` is `class` on the wire."""

    index: int = 0
    uuid: str = ""
    name: str = ""
    gpu_class: str = field(default="", name="class")
    memory_total_mb: int = 0
    memory_used_mb: int = 0
    compute_capability: str = ""
    driver_version: str = ""
    cuda_version: str = ""
    pci_bus_id: str = ""
    numa_node: int = -1
    utilization_percent: int = 0
    temperature_c: int = 0
    ecc_errors: int = 0
    problems: list[GPUProblem] = []
    nvlink_peers: list[int] = []
    nic_paths: dict[str, str] = {}
    fabric_state: str = ""
    fabric_status: str = ""
    cluster_uuid: str = ""
    clique_id: str = ""
    fabric_bandwidth: str = ""
    mig: MIGDevice | None = None


class HCA(_Value, kw_only=True, frozen=True):
    """One port of an RDMA adapter (4.4). `gid_index` -1: no routing GID."""

    name: str = ""
    port: int = 0
    state: str = ""
    rate_gbps: float = 0.0
    link_layer: str = ""
    gid_index: int = -1
    guid: str = ""
    lid: int = 0
    sm_lid: int = 0
    subnet_prefix: str = ""
    netdev: str = ""
    numa_node: int = -1
    pci_bus_id: str = ""


class FabricAttachment(_Value, kw_only=True, frozen=True):
    """A fabric this node is on (`kind` ib, roce or nvlink) and the adapters that reach it."""

    fabric: str = ""
    kind: str = ""
    hcas: list[str] = []
    subnet_manager: str = ""
    problems: list[str] = []


class IMEX(_Value, kw_only=True, frozen=True):
    """The node's IMEX domain. `state` is READY, another word of the driver's, or absent."""

    domain: str = ""
    state: str = ""
    nodes: list[str] = []
    version: str = ""
    error: str = ""


class ProvisionStatus(_Value, kw_only=True, frozen=True):
    """How an engine installation stands: wanted, downloading, verifying, installing, ready, failed, unsupported."""

    engine: str = ""
    version: str = ""
    variant: str = ""
    state: str = ""
    done_bytes: int = 0
    total_bytes: int = 0
    detail: str = ""


class GPUSensor(_Value, kw_only=True, frozen=True):
    """Sensors of a physical card (4.6). 0 is not measured for temperatures and power; -1 is not reported for counts.

    `memory_total_mb` 0 means that the busy figures say nothing. The counts from `pcie_replays` on stand only when
    `has_wear`; `xid_*` are since the agent started.
    """

    index: int = 0
    temp_c: int = 0
    memory_temp_c: int = 0
    power_w: float = 0.0
    power_limit_w: float = 0.0
    throttle: list[str] = []
    utilization_percent: int = -1
    memory_utilization_percent: int = -1
    memory_used_mb: int = 0
    memory_total_mb: int = 0
    sm_clock_mhz: int = 0
    ecc_uncorrected: int = -1
    has_wear: bool = False
    pcie_replays: int = -1
    retired_pages_sbe: int = -1
    retired_pages_dbe: int = -1
    retirement_pending: bool = False
    remapped_rows_correctable: int = -1
    remapped_rows_uncorrectable: int = -1
    remap_pending: bool = False
    remap_failure: bool = False
    nvlink_crc_errors: int = -1
    nvlink_replay_errors: int = -1
    nvlink_recovery_errors: int = -1
    xid_errors: int = 0
    last_xid: int = 0
    last_xid_text: str = ""
    last_xid_unix: int = 0


class ShardLoad(_Value, kw_only=True, frozen=True):
    """What a shard's whole process group uses: cores (1.0 is one core) and resident bytes."""

    shard_id: ShardId = ""
    cpu_cores: float = 0.0
    memory_rss_bytes: int = 0


class NodeLoad(_Value, kw_only=True, frozen=True):
    """What the machine is doing (4.6). In the temperatures and the power, zero means not measured."""

    cpu_percent: float = 0.0
    load1: float = 0.0
    load5: float = 0.0
    load15: float = 0.0
    memory_total_bytes: int = 0
    memory_used_bytes: int = 0
    memory_available_bytes: int = 0
    shards: list[ShardLoad] = []
    cpu_temp_c: float = 0.0
    cpu_power_w: float = 0.0
    inlet_temp_c: float = 0.0
    gpus: list[GPUSensor] = []


class LoraAdapter(_Value, kw_only=True, frozen=True):
    """An adapter: the name clients ask for and its source. Its place in the list is its id in llama.cpp requests."""

    name: str = ""
    source: str = ""


class EngineProfile(_Value, kw_only=True, frozen=True):
    """How a replica is to be run (4.8). `model_path` is the source until the agent has fetched it."""

    name: str = ""
    engine: str = ""
    gpu_class: str = ""
    nodes: int = 0
    gpus_per_node: int = 0
    tp: int = 0
    pp: int = 0
    args: list[str] = []
    env: dict[str, str] = {}
    model_path: str = ""
    served_model_name: str = ""
    adapters: list[LoraAdapter] = []
    kv_events: bool = False
