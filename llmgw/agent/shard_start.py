"""Carrying out one start command (P-50): each step may fail the shard with a sentence, and nothing is left behind then."""

from collections.abc import Sequence

import msgspec
from anyio import to_thread

from llmgw.agent.bind_address import port_fault
from llmgw.agent.engine_probe import EngineProbe
from llmgw.agent.engines.adapter import CannotStart, EngineAdapter
from llmgw.agent.engines.registry import EngineRegistry
from llmgw.agent.fetch import FetchFailed, Progress
from llmgw.agent.shard_spec import is_shard_id
from llmgw.agent.shards import Shard
from llmgw.agent.supervisor import Supervisor
from llmgw.agent.weight_source import BadSource
from llmgw.agent.weights import Weights
from llmgw.obs import log
from llmgw.policy.engine_rules import unsafe_argument, unsafe_environment
from llmgw.wire.agent import GPU, FetchProgress, LoraAdapter, ShardState

_LAUNCH_FAILED_LINES = 10


class ShardStart:
    """Starts shards with what the node has: engines, weights, a supervisor and GPUs."""

    def __init__(
        self,
        registry: EngineRegistry,
        weights: Weights,
        supervisor: Supervisor,
        probe: EngineProbe,
        gpus: Sequence[GPU],
        engine_dir: str,
    ) -> None:
        self._registry = registry
        self._weights = weights
        self._supervisor = supervisor
        self._probe = probe
        self._gpus = {gpu.index: gpu for gpu in gpus}
        self._engine_dir = engine_dir

    async def run(self, shard: Shard, ready_timeout_s: float) -> None:
        """Bring a shard to READY or FAILED. Cancelled by a stop, it leaves its process to that stop."""
        try:
            adapter = self._checked(shard)
            await self._fetch_weights(shard)
            shard.move(ShardState.STARTING)
            taken = port_fault(shard.spec.listen_host, shard.spec.http_port) if adapter.serves_http(shard.spec) else None
            if taken:
                raise CannotStart(taken)
            commands = await to_thread.run_sync(adapter.commands, shard.spec, self._engine_dir)
            await self._supervisor.launch(shard, commands)
            await self._supervisor.become_ready(shard, adapter, ready_timeout_s)
        except CannotStart as fault:
            await self._fail(shard, fault.sentence)
        except (FetchFailed, BadSource) as fault:
            await self._fail(shard, fault.sentence)
        except OSError as error:
            await self._fail(shard, f"the node cannot start it: {error.strerror or error} {error.filename or ''}".strip())
        else:
            log.get("agent.shards").info("shard is ready", shard=shard.shard_id, port=shard.spec.http_port)

    def _checked(self, shard: Shard) -> EngineAdapter:
        """Steps 2 to 5: the id, the engine, the profile's arguments and variables, the GPUs. Raises CannotStart."""
        spec, profile = shard.spec, shard.spec.profile
        if not is_shard_id(spec.shard_id):
            raise CannotStart(f"the shard id {spec.shard_id[:64]!r} is no plain name")
        adapter = self._registry.adapter(profile.engine)
        unsafe = unsafe_argument(profile.engine, profile.args) or unsafe_environment(profile.env, defining=False)
        if unsafe:
            raise CannotStart(unsafe)
        fault = adapter.validate(profile, [self._gpus.get(index, GPU(index=index)) for index in spec.gpu_indices])
        if fault:
            raise CannotStart(fault)
        return adapter

    async def _fetch_weights(self, shard: Shard) -> None:
        """Steps 6 and 7: the model, then each adapter; the spec then names paths. Raises FetchFailed, BadSource."""
        profile = shard.spec.profile
        model = await self._fetch(shard, profile.model_path)
        adapters: list[LoraAdapter] = []
        for adapter in profile.adapters:
            try:
                path = await self._fetch(shard, adapter.source)
            except (FetchFailed, BadSource) as fault:
                raise FetchFailed(f"adapter {adapter.name}: {fault.sentence}") from None
            adapters.append(msgspec.structs.replace(adapter, source=path))
        fetched = msgspec.structs.replace(profile, model_path=model, adapters=adapters)
        shard.spec = msgspec.structs.replace(shard.spec, profile=fetched)

    async def _fetch(self, shard: Shard, source: str) -> str:
        if shard.spec.profile.engine == "sim":
            return source
        if self._weights.needs_fetch(source):
            shard.fetch = FetchProgress(source=source)
            shard.move(ShardState.FETCHING)
        return await self._weights.fetch(source, _reporter(shard, source))

    async def _fail(self, shard: Shard, sentence: str) -> None:
        """End what was launched, if anything, and tell."""
        lines = await self._supervisor.last_output(shard, 20 if shard.exit_code else _LAUNCH_FAILED_LINES)
        output = lines if shard.process is not None else []
        if shard.process is not None and not shard.process.exited.is_set():
            await self._supervisor.stop(shard, grace_s=5.0)
        log.get("agent.shards").warning("shard failed to start", shard=shard.shard_id, reason=sentence)
        shard.fail(sentence, shard.exit_code, output)


def _reporter(shard: Shard, source: str) -> Progress:
    def report(done_bytes: int, total_bytes: int) -> None:
        shard.fetch = FetchProgress(source=source, done_bytes=done_bytes, total_bytes=total_bytes)

    return report
