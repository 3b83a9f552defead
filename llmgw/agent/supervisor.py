"""Processes of shards: launched, waited for, watched, stopped, found again (E-130..E-142).

The supervisor never restarts an engine. Whoever asked for it is told that it ended, and decides (a restart reaches the
node as a stop and a start): two minds restarting one engine is how a card gets two owners (F-20).
"""

import os
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.abc
import msgspec
from anyio import to_thread

from llmgw.agent.compute import ACCOUNT_LINES, cpu_fault, engine_account, recorded_compute
from llmgw.agent.directories import Directories
from llmgw.agent.engine_user import EngineUser
from llmgw.agent.engines.adapter import CannotStart, Command, EngineAdapter
from llmgw.agent.exit_report import LAST_LINES, exit_sentence
from llmgw.agent.log_ring import ShardLog
from llmgw.agent.proc import environment_value, read_stat
from llmgw.agent.process_group import MARKER, EngineProcess, ProcessIdentity, launch, marked_processes
from llmgw.agent.readiness import NotReady, wait_ready
from llmgw.agent.saved import SavedShard, SavedShards
from llmgw.agent.shard_spec import ShardSpec
from llmgw.agent.shards import Shard
from llmgw.obs import log
from llmgw.wire.agent import ShardState

_SERVING = (ShardState.READY, ShardState.DRAINING)


class Supervisor:
    """Runs the processes of a node's shards. `tasks` is the node's task group: watchers live as long as it does."""

    def __init__(
        self, directories: Directories, state_dir: str, user: EngineUser | None, tasks: anyio.abc.TaskGroup
    ) -> None:
        self.saved = SavedShards(directories.shards)
        self._directories = directories
        self._marker_prefix = f"{Path(state_dir).absolute()}#"
        self._user = user
        self._tasks = tasks

    def log_of(self, shard_id: str) -> ShardLog:
        """Return a shard's output."""
        return ShardLog(self._directories.logs, shard_id)

    async def launch(self, shard: Shard, commands: Sequence[Command]) -> None:
        """Start a shard's program, save it for adoption, and watch it. Raises CannotStart."""
        if len(commands) != 1:
            raise CannotStart(f"a shard of {len(commands)} programs is not run by this release")
        with anyio.CancelScope(shield=True):
            output_fd = self.log_of(shard.shard_id).open_for_engine()
            try:
                process = await launch(
                    commands[0], str(self._directories.engines), output_fd, self._marker(shard), self._user
                )
            finally:
                os.close(output_fd)
            shard.process = process
            self._save(shard, was_ready=False)
            self._tasks.start_soon(self._watch, shard, process)

    def _marker(self, shard: Shard) -> str:
        return self._marker_prefix + shard.shard_id

    def _save(self, shard: Shard, was_ready: bool) -> None:
        """Write the saved shard. Its command's name is read afresh: a wrapper script has become its engine by then."""
        if shard.process is None:
            return
        identity = shard.process.identity
        stat = read_stat(identity.pid)
        if stat is not None and stat.start_ticks == identity.start_ticks:
            identity = shard.process.identity = ProcessIdentity(identity.pid, identity.start_ticks, stat.name)
        spec = shard.spec if shard.compute is None else _with_compute(shard)
        self.saved.write(
            SavedShard(
                spec=spec,
                pid=identity.pid,
                start_ticks=identity.start_ticks,
                command=identity.command,
                was_ready=was_ready,
            )
        )

    async def become_ready(self, shard: Shard, adapter: EngineAdapter, timeout_s: float) -> None:
        """Wait until a launched or adopted shard serves, check where it computes, and move it to READY.

        Raises CannotStart; then its processes are gone, so that a GPU called free is free (P-50).
        """
        process = shard.process
        if process is None:
            raise CannotStart("it has no process")
        try:
            await wait_ready(process, adapter, shard.spec, timeout_s)
        except NotReady as late:
            await self._end(shard)
            raise CannotStart(late.sentence) from None
        if process.exited.is_set():
            raise await self._ended(shard, process)
        account = engine_account(await self._tail(shard, ACCOUNT_LINES))
        fault = cpu_fault(shard.spec.gpu_indices, account) if adapter.falls_back_to_cpu else None
        if fault:
            await self._end(shard)
            raise CannotStart(fault)
        if process.exited.is_set():
            raise await self._ended(shard, process)
        shard.knows(recorded_compute(shard.spec.gpu_indices, account))
        self._save(shard, was_ready=True)
        shard.move(ShardState.READY)

    async def _ended(self, shard: Shard, process: EngineProcess) -> CannotStart:
        """Clean up after an engine that ended before it was ready; return what to raise."""
        await self._end(shard)
        shard.exit_code = process.exit_code
        return CannotStart(exit_sentence(process.exit_code, await self._tail(shard, LAST_LINES)))

    async def last_output(self, shard: Shard, lines: int = LAST_LINES) -> list[str]:
        """Return a shard's last lines."""
        return await self._tail(shard, lines)

    async def _tail(self, shard: Shard, lines: int) -> list[str]:
        return await to_thread.run_sync(self.log_of(shard.shard_id).tail, lines)

    async def _watch(self, shard: Shard, process: EngineProcess) -> None:
        """Wait for a process; when it served until then, end its group and tell (E-135)."""
        await process.watch()
        if shard.process is not process or shard.state not in _SERVING:
            return
        await self._end(shard)
        if shard.state not in _SERVING:
            return
        output = await self._tail(shard, LAST_LINES)
        sentence = exit_sentence(process.exit_code, output)
        log.get("agent.shards").warning("engine ended", shard=shard.shard_id, reason=sentence)
        shard.fail(sentence, process.exit_code, output)

    async def _end(self, shard: Shard) -> None:
        """End what is left of a shard that failed, without grace worth mentioning, and forget its saved file."""
        await self.stop(shard, grace_s=5.0)

    async def stop(self, shard: Shard, grace_s: float) -> None:
        """End a shard's processes, all of them, and forget its saved file (E-134)."""
        if shard.process is not None:
            try:
                await shard.process.stop(grace_s)
            except TimeoutError:
                log.get("agent.shards").error("a process of the shard does not end after SIGKILL", shard=shard.shard_id)
        self.saved.remove(shard.shard_id)

    def watch_adopted(self, shard: Shard, saved: SavedShard) -> None:
        """Take over the process of a saved shard."""
        shard.process = EngineProcess(saved.identity(), self._marker(shard), None)
        self._tasks.start_soon(self._watch, shard, shard.process)

    async def end_strays(self, saved: Sequence[SavedShard], adopted: frozenset[str]) -> int:
        """End processes of this agent's earlier runs that no adopted shard explains (E-140, F-23); return how many."""
        markers = {self._marker_prefix + shard_id for shard_id in adopted}
        strays = await to_thread.run_sync(self._strays, saved, markers, adopted)
        for process in strays:
            await process.stop(5.0)
        return len(strays)

    def _strays(
        self, saved: Sequence[SavedShard], markers: set[str], adopted: frozenset[str]
    ) -> list[EngineProcess]:
        """Groups of saved shards that were not adopted, then whatever carries our marker and belongs to no adopted one."""
        found: dict[str, EngineProcess] = {}
        for stat in marked_processes(self._marker_prefix, prefix=True):
            marker = environment_value(stat.pid, MARKER) or ""
            if marker and marker not in markers:
                identity = ProcessIdentity(stat.pid, stat.start_ticks, stat.name)
                found.setdefault(marker, EngineProcess(identity, marker, None))
        for one in saved:
            if one.spec.shard_id not in adopted:
                marker = self._marker_prefix + one.spec.shard_id
                process = EngineProcess(one.identity(), marker, None)
                if process.members():
                    found[marker] = process
        return list(found.values())


def _with_compute(shard: Shard) -> ShardSpec:
    return msgspec.structs.replace(shard.spec, compute=shard.compute)
