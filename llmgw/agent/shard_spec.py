"""What a shard was started as: the values adapters build a command from, and what is saved for adoption (E-6)."""

import re
from collections.abc import Sequence

import msgspec

from llmgw.wire.agent import Compute, EngineProfile, StartShard

_SHARD_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class ShardSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One shard, localised to this node: sources are fetched paths once its weights are here.

    `bind_addr` "" means every address (P-54); `kv_events_port` 0 means none; `gpu_uuids` only with a MIG instance.
    Never log one whole: it holds the engine's key, which its repr leaves out.
    """

    replica_id: str
    shard_id: str
    model: str
    profile: EngineProfile
    rank: int = 0
    nnodes: int = 1
    gpu_indices: list[int] = []
    gpu_uuids: list[str] = []
    hcas: list[str] = []
    fabric: str = ""
    mgmt_interface: str = ""
    gid_index: int = -1
    leader_addr: str = ""
    leader_port: int = 0
    http_port: int = 0
    bind_addr: str = ""
    api_key: str = ""
    kv_events_port: int = 0
    threads: int = 0
    pool: str = ""
    profile_fp: str = ""
    compute: Compute | None = None

    def __repr__(self) -> str:
        return f"ShardSpec({self.shard_id}, {self.profile.engine}, port {self.http_port})"

    @property
    def is_leader(self) -> bool:
        """Return whether this shard serves for its replica: rank 0 does."""
        return self.rank == 0

    @property
    def listen_host(self) -> str:
        """The address the engine is told to listen on."""
        return self.bind_addr or "0.0.0.0"

    @property
    def health_host(self) -> str:
        """The address its health is asked at, bracketed when it is IPv6."""
        host = self.bind_addr or "127.0.0.1"
        return f"[{host}]" if ":" in host else host


def is_shard_id(text: str) -> bool:
    """Return whether an id can be a file's name here; whatever cannot is refused rather than escaped."""
    return _SHARD_ID.fullmatch(text) is not None


def spec_of(message: StartShard, bind_addr: str, mgmt_interface: str, gpu_uuids: Sequence[str]) -> ShardSpec:
    """Build the spec of a start command for this node (P-50 step 2); its own interface wins over the hint (P-53)."""
    return ShardSpec(
        replica_id=message.replica_id,
        shard_id=message.shard_id,
        model=message.model,
        profile=message.profile,
        rank=message.rank,
        nnodes=max(message.nnodes, 1),
        gpu_indices=list(message.gpu_indices),
        gpu_uuids=list(gpu_uuids),
        hcas=list(message.hcas),
        fabric=message.fabric,
        mgmt_interface=mgmt_interface or message.mgmt_interface,
        leader_addr=message.leader_addr,
        leader_port=message.leader_port,
        http_port=message.http_port,
        bind_addr=bind_addr,
        api_key=message.api_key,
        threads=message.threads,
        pool=message.pool,
        profile_fp=message.profile_fp,
    )
