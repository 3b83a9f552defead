"""The replicas the leader has started or adopted, and what it last heard of each.

Only these hold resources: a replica leaves the book the moment its shards are known to be gone. What failed last is
kept apart, for whoever asks why.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from llmgw.policy.candidates import Rejection
from llmgw.policy.snapshot import DRAINING, SERVING, STARTING, ReplicaSeen, Share
from llmgw.wire.agent import Compute, FetchProgress, ShardState, StartShard

QUIET_AFTER_S = 2.0
"""How long after leaving the routes a replica may still be sent a request: a gateway learns within 0.1 s and reports
every 0.2 s, so after 2 s "nothing in flight" is true."""


@dataclass(slots=True, kw_only=True)
class Replica:
    """One replica. `phase` is what the leader wants of it, `state` what the agent last said of its shard."""

    id: str
    shard_id: str
    model: str
    profile: str
    engine: str
    pool: str
    fingerprint: str
    source: str
    share: Share
    port: int
    phase: str = STARTING
    state: ShardState = ShardState.PENDING
    started_s: float = 0.0
    started_unix: float = 0.0
    ready_s: float | None = None
    draining_s: float | None = None
    stop_sent_s: float | None = None
    last_used_unix: float = 0.0
    inflight: int = 0
    error: str = ""
    why: str = ""
    reason: str = ""
    rejections: tuple[Rejection, ...] = ()
    fetch: FetchProgress | None = None
    compute: Compute | None = None
    start: StartShard | None = field(default=None, repr=False)
    is_sent: bool = False

    @property
    def node(self) -> str:
        """Return the node it is on."""
        return self.share.node

    def idle_s(self, now_unix: float) -> float:
        """Return seconds since a request used it, 0 while one does."""
        return 0.0 if self.inflight else max(now_unix - max(self.last_used_unix, self.started_unix), 0.0)

    def seen(self, now_s: float, now_unix: float) -> ReplicaSeen:
        """Return the replica as policy sees it."""
        return ReplicaSeen(
            id=self.id,
            model=self.model,
            profile=self.profile,
            fingerprint=self.fingerprint,
            phase=self.phase,
            shares=(self.share,),
            started_s=self.started_s,
            ready_s=self.ready_s,
            draining_s=self.draining_s,
            idle_s=self.idle_s(now_unix),
            inflight=self.inflight,
            is_quiet=self.draining_s is not None and now_s - self.draining_s >= QUIET_AFTER_S,
        )

    def word(self) -> str:
        """Return its state as L-95 and the API name it."""
        if self.phase in (SERVING, DRAINING):
            return self.phase
        if self.phase != STARTING:
            return DRAINING if self.phase == "stopping" else self.phase
        words = {ShardState.PENDING: "pending", ShardState.FETCHING: "fetching"}
        return words.get(self.state, "starting")


class ReplicaBook:
    """Replicas by id and by shard."""

    def __init__(self) -> None:
        self._by_id: dict[str, Replica] = {}
        self._by_shard: dict[str, Replica] = {}
        self.last_failed: dict[str, Replica] = {}

    def __iter__(self) -> Iterator[Replica]:
        return iter(sorted(self._by_id.values(), key=lambda r: (r.model, r.started_s, r.id)))

    def __contains__(self, replica_id: str) -> bool:
        return replica_id in self._by_id

    def add(self, replica: Replica) -> None:
        """Take a replica in. Its id must be new."""
        if replica.id in self._by_id or replica.shard_id in self._by_shard:
            raise ValueError(f"replica {replica.id} is there already")
        self._by_id[replica.id] = replica
        self._by_shard[replica.shard_id] = replica

    def drop(self, replica: Replica) -> None:
        """Forget a replica."""
        self._by_id.pop(replica.id, None)
        self._by_shard.pop(replica.shard_id, None)

    def get(self, replica_id: str) -> Replica | None:
        """Return a replica by its id."""
        return self._by_id.get(replica_id)

    def by_shard(self, shard_id: str) -> Replica | None:
        """Return the replica a shard belongs to."""
        return self._by_shard.get(shard_id)

    def of_model(self, model: str) -> list[Replica]:
        """Return a model's replicas, oldest first."""
        return [r for r in self if r.model == model]

    def on_node(self, node_id: str) -> list[Replica]:
        """Return the replicas on a node."""
        return [r for r in self if r.node == node_id]
