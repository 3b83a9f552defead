"""The shards of a node and where each stands (E-130). Values and a notice of change; no processes here."""

import time
from collections.abc import Callable, Sequence

import anyio

from llmgw.agent.process_group import EngineProcess
from llmgw.agent.shard_spec import ShardSpec
from llmgw.wire.agent import Compute, FetchProgress, RunningShard, ShardState, ShardStatus

TERMINAL = frozenset({ShardState.STOPPED, ShardState.FAILED})
_KEPT_ENDED = 256


class Shard:
    """One shard from its start command to its end. Only `move` changes its state, so that everyone hears of it."""

    def __init__(self, spec: ShardSpec, notify: Callable[[], None], state: ShardState = ShardState.PENDING) -> None:
        self.spec = spec
        self.state = state
        self.error = ""
        self.exit_code = 0
        self.last_output: Sequence[str] = ()
        self.fetch: FetchProgress | None = None
        self.compute: Compute | None = spec.compute
        self.process: EngineProcess | None = None
        self.starting: anyio.CancelScope | None = None
        self.is_end_told = False
        self.since_s = time.monotonic()
        self._notify = notify

    @property
    def shard_id(self) -> str:
        """The shard's id."""
        return self.spec.shard_id

    @property
    def is_ended(self) -> bool:
        """Return whether its state is terminal."""
        return self.state in TERMINAL

    def move(self, state: ShardState) -> None:
        """Enter a state."""
        self.state = state
        if state is not ShardState.FETCHING:
            self.fetch = None
        self.since_s = time.monotonic()
        self._notify()

    def fail(self, error: str, exit_code: int = 0, last_output: Sequence[str] = ()) -> None:
        """Enter FAILED with a sentence."""
        self.error, self.exit_code, self.last_output = error, exit_code, tuple(last_output)
        self.move(ShardState.FAILED)

    def knows(self, compute: Compute | None) -> None:
        """Keep what it computes on."""
        self.compute = compute
        self._notify()

    def status(self, node_id: str) -> ShardStatus:
        """Describe it as a report."""
        return ShardStatus(
            node_id=node_id,
            replica_id=self.spec.replica_id,
            shard_id=self.shard_id,
            state=self.state,
            error=self.error,
            exit_code=self.exit_code,
            last_output=list(self.last_output),
            fetch=self.fetch,
            compute=self.compute if self.state is ShardState.READY else None,
        )

    def running(self, mgmt_addr: str) -> RunningShard:
        """Describe it for Register."""
        spec = self.spec
        return RunningShard(
            shard_id=spec.shard_id,
            replica_id=spec.replica_id,
            model=spec.model,
            profile=spec.profile.name,
            engine=spec.profile.engine,
            rank=spec.rank,
            nnodes=spec.nnodes,
            gpu_indices=list(spec.gpu_indices),
            http_port=spec.http_port,
            state=self.state,
            pool=spec.pool,
            fabric=spec.fabric,
            leader_addr=mgmt_addr,
            leader_port=spec.leader_port,
            profile_fp=spec.profile_fp,
            compute=self.compute,
        )


class ShardTable:
    """Every shard by id. `changed` is the event of the next change."""

    def __init__(self) -> None:
        self.changed = anyio.Event()
        self._shards: dict[str, Shard] = {}
        self._replaced: list[Shard] = []

    def notify(self) -> None:
        """Wake whoever waits for a change."""
        self.changed.set()
        self.changed = anyio.Event()

    def add(self, spec: ShardSpec, state: ShardState = ShardState.PENDING) -> Shard:
        """Add a shard, in place of an ended one of that id; long-ended ones that were told are forgotten.

        The one replaced is kept until its end was told, so that no control plane misses it.
        """
        replaced = self._shards.get(spec.shard_id)
        self._replaced = [one for one in (*self._replaced, replaced) if one is not None and not one.is_end_told]
        shard = self._shards[spec.shard_id] = Shard(spec, self.notify, state)
        ended = [one for one in self._shards.values() if one.is_ended and one.is_end_told]
        for old in sorted(ended, key=lambda one: one.since_s)[: max(len(ended) - _KEPT_ENDED, 0)]:
            del self._shards[old.shard_id]
        self.notify()
        return shard

    def get(self, shard_id: str) -> Shard | None:
        """Return a shard, or None."""
        return self._shards.get(shard_id)

    def remove(self, shard: Shard) -> None:
        """Forget a shard."""
        if self._shards.get(shard.shard_id) is shard:
            del self._shards[shard.shard_id]

    def all(self) -> list[Shard]:
        """Return every shard, ended ones included, and before them those replaced before their end was told."""
        return [*(one for one in self._replaced if not one.is_end_told), *self._shards.values()]

    def living(self) -> list[Shard]:
        """Return the shards that have not ended."""
        return [shard for shard in self._shards.values() if not shard.is_ended]

    def paths_in_use(self) -> frozenset[str]:
        """Return sources and paths that living shards were started with."""
        profiles = [shard.spec.profile for shard in self.living()]
        sources = {adapter.source for profile in profiles for adapter in profile.adapters}
        return frozenset({profile.model_path for profile in profiles} | sources)
