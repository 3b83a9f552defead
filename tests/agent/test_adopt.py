"""Engines outlive the agent: found again by the next one, checked, and watched as if it had started them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import httpx
import msgspec
import pytest

from llmgw.wire.agent import ShardState
from tests.agent.node_rig import (
    KEY,
    model_file,
    node_config,
    run,
    running_node,
    script,
    start_command,
    stop_command,
)
from tests.waiting import until

AGENT = """
import sys, anyio
from pathlib import Path
from tests.agent.node_rig import node_config, running_node, start_command
async def main():
    folder, model = Path(sys.argv[1]), sys.argv[2]
    async with running_node(node_config(folder), leave=True) as rig:
        message = start_command(model)
        shard = await rig.started(message)
        print('engine', shard.process.identity.pid, message.http_port, flush=True)
        await anyio.sleep_forever()
anyio.run(main, backend="trio")
"""


@pytest.mark.covers("E-140")
def test_an_engine_survives_kill_9_of_its_agent_and_the_next_one_adopts_it_and_sees_its_end() -> None:
    async def main(folder: Path) -> None:
        model = model_file(folder)
        agent = subprocess.Popen(
            [sys.executable, "-c", AGENT, str(folder), model],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path.cwd(),
        )
        assert agent.stdout is not None
        words = [""]
        while words[:1] != ["engine"]:
            words = (await anyio.to_thread.run_sync(agent.stdout.readline)).split() or [""]
            assert agent.poll() is None
        agent.kill()
        agent.wait()
        agent.stdout.close()
        pid, port = int(words[1]), int(words[2])
        saved = folder / "state" / "shards" / "m-1-0.json"
        assert saved.stat().st_mode & 0o777 == 0o600 and json.loads(saved.read_text())["pid"] == pid
        async with running_node(node_config(folder)) as rig:
            shard = await rig.in_state(ShardState.READY)
            assert shard.process is not None and shard.process.is_adopted
            assert shard.process.identity.pid == pid and shard.compute is not None
            headers = {"Authorization": f"Bearer {KEY}"}
            async with httpx.AsyncClient(headers=headers, timeout=30) as client:
                assert (await client.get(f"http://127.0.0.1:{port}/metrics")).status_code == 200
            os.kill(pid, signal.SIGKILL)
            status = await rig.told(ShardState.FAILED)
            assert "not known" in status.error and status.exit_code == -1 and status.last_output
            assert not saved.exists()

    run(main)


@pytest.mark.covers("E-145")
def test_an_adopted_shard_is_in_register_with_its_port_and_can_be_stopped() -> None:
    async def main(folder: Path) -> None:
        message = start_command(model_file(folder))
        async with running_node(node_config(folder), leave=True) as rig:
            shard = await rig.started(message)
            process = shard.process
        async with running_node(node_config(folder)) as rig:
            registered = await rig.node.register()
            (running,) = registered.running_shards
            assert (running.shard_id, running.http_port) == (message.shard_id, message.http_port)
            assert running.state in (ShardState.STARTING, ShardState.READY)
            await rig.in_state(ShardState.READY)
            rig.command(stop_command())
            await rig.told(ShardState.STOPPED)
            assert process is not None and process.members() == []

    run(main)


@pytest.mark.covers("E-140")
def test_a_saved_shard_whose_pid_is_another_process_now_is_forgotten_and_that_process_left_alone() -> None:
    async def main(folder: Path) -> None:
        async with running_node(node_config(folder), leave=True) as rig:
            shard = await rig.started(start_command(model_file(folder)))
            assert shard.process is not None
            old = shard.process
            saved = folder / "state" / "shards" / "m-1-0.json"
            text = json.loads(saved.read_text())
        os.killpg(old.identity.pid, signal.SIGKILL)
        until(lambda: old.members() == [])
        bystander = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        try:
            saved.write_text(json.dumps({**text, "pid": bystander.pid}))
            async with running_node(node_config(folder)) as rig:
                assert rig.node.shards.all() == [] and not saved.exists()
            assert bystander.poll() is None
        finally:
            bystander.kill()
            bystander.wait()

    run(main)


@pytest.mark.covers("E-140", "F-23")
def test_processes_of_a_shard_whose_leader_is_gone_are_ended_at_the_next_start() -> None:
    async def main(folder: Path) -> None:
        program = script(folder, "engine", "sleep 1000 &\nsetsid sleep 1000 &\nexec sleep 1000\n")
        message = start_command(model_file(folder))
        async with running_node(node_config(folder, program), leave=True) as rig:
            rig.command(message)
            with anyio.fail_after(10):
                while len(marked(folder)) < 3 or not (folder / "state" / "shards" / "m-1-0.json").exists():
                    await anyio.sleep(0.02)
            process = rig.shard().process
        assert process is not None
        os.kill(process.identity.pid, signal.SIGKILL)
        until(lambda: len(marked(folder)) == 2)
        async with running_node(node_config(folder, program)):
            assert marked(folder) == []

    run(main)


def test_an_adopted_engine_that_never_answers_is_failed_and_ended() -> None:
    async def main(folder: Path) -> None:
        program = script(folder, "engine", "exec sleep 1000\n")
        async with running_node(node_config(folder, program), leave=True) as rig:
            rig.command(start_command(model_file(folder)))
            with anyio.fail_after(10):
                while not (folder / "state" / "shards" / "m-1-0.json").exists():
                    await anyio.sleep(0.02)
            with anyio.fail_after(10):
                while marked(folder) and marked(folder)[0].name != "sleep":
                    await anyio.sleep(0.02)
        saved = folder / "state" / "shards" / "m-1-0.json"
        document = json.loads(saved.read_text())
        saved.write_text(json.dumps({**document, "command": "sleep"}))
        config = msgspec.structs.replace(node_config(folder, program), adopt_ready_timeout=0.3)
        async with running_node(config) as rig:
            status = await rig.told(ShardState.FAILED)
            assert "not ready within 0.3 s" in status.error
            assert marked(folder) == []

    run(main)


def marked(folder: Path) -> list:
    from llmgw.agent.process_group import marked_processes

    return marked_processes(f"{folder / 'state'}#", prefix=True)
