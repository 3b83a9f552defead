"""A real llama-server run by a node: it answers with its key, keeps it secret, and its end is told."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import httpx
import msgspec
import pytest

from llmgw.agent.shards import Shard
from llmgw.testing.tiny_gguf import REPLY
from llmgw.wire.agent import DrainShard, LogsReply, LogsRequest, RemoveWeights, ShardState
from tests.agent.file_server import Site, serving
from tests.agent.node_rig import (
    KEY,
    free_port,
    is_root,
    model_file,
    node_config,
    run,
    running_node,
    script,
    start_command,
    stop_command,
)

CHAT = {"messages": [{"role": "user", "content": "hi"}]}


def _command_lines() -> str:
    lines = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                lines.append(Path(f"/proc/{entry}/cmdline").read_bytes().decode(errors="replace"))
            except OSError:
                continue
    return "\n".join(lines)


@pytest.mark.covers("E-42", "E-48", "E-52", "P-56")
def test_a_real_engine_serves_with_its_key_and_nobody_sees_the_key() -> None:
    async def main(folder: Path) -> None:
        async with running_node(node_config(folder)) as rig:
            message = start_command(model_file(folder))
            shard = await rig.started(message)
            assert rig.states()[-2:] == [ShardState.STARTING, ShardState.READY]
            base = f"http://127.0.0.1:{message.http_port}"
            async with httpx.AsyncClient(base_url=base, timeout=30) as client:
                assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 401
                assert (await client.get("/metrics")).status_code == 401
                client.headers["Authorization"] = f"Bearer {KEY}"
                answer = (await client.post("/v1/chat/completions", json=CHAT)).json()
                assert answer["choices"][0]["message"]["content"].strip() == REPLY.strip()
                assert "llamacpp:requests_processing" in (await client.get("/metrics")).text
                assert "m" in [row["id"] for row in (await client.get("/v1/models")).json()["data"]]
            lines = _command_lines()
            assert "--alias\0m\0" in lines and KEY not in lines
            assert shard.compute is not None and shard.compute.backend == "CPU"
            rig.command(stop_command())
            await rig.told(ShardState.STOPPED)
            assert shard.process is not None and shard.process.members() == []

    run(main)


@pytest.mark.covers("E-135")
def test_an_engine_killed_while_it_serves_is_failed_with_its_signal_and_last_lines() -> None:
    async def main(folder: Path) -> None:
        async with running_node(node_config(folder)) as rig:
            shard = await rig.started(start_command(model_file(folder)))
            assert shard.process is not None
            os.kill(shard.process.identity.pid, signal.SIGKILL)
            status = await rig.told(ShardState.FAILED)
            assert "killed by SIGKILL" in status.error and status.exit_code == 137
            assert 0 < len(status.last_output) <= 20
            assert list((folder / "state" / "shards").iterdir()) == []

    run(main)


@pytest.mark.covers("P-51")
def test_a_repeated_start_changes_nothing_and_is_told_the_state() -> None:
    async def main(folder: Path) -> None:
        async with running_node(node_config(folder)) as rig:
            message = start_command(model_file(folder))
            shard = await rig.started(message)
            assert shard.process is not None
            pid, told = shard.process.identity.pid, len(rig.said)
            rig.command(message)
            with anyio.fail_after(10):
                while len(rig.said) == told:
                    await anyio.sleep(0.02)
            status = await rig.told(ShardState.READY)
            assert status.shard_id == message.shard_id
            assert rig.shard() is shard and shard.process.identity.pid == pid
            assert len(os.listdir(folder / "state" / "shards")) == 1

    run(main)


@pytest.mark.covers("P-60b")
def test_a_draining_shard_serves_until_it_is_stopped() -> None:
    async def main(folder: Path) -> None:
        async with running_node(node_config(folder)) as rig:
            message = start_command(model_file(folder))
            await rig.started(message)
            rig.command(DrainShard(shard_id=message.shard_id))
            await rig.told(ShardState.DRAINING)
            async with httpx.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=30) as client:
                url = f"http://127.0.0.1:{message.http_port}/v1/chat/completions"
                assert (await client.post(url, json=CHAT)).status_code == 200
            rig.command(stop_command())
            await rig.told(ShardState.STOPPED)

    run(main)


@pytest.mark.covers("E-130")
def test_a_shard_goes_through_its_states_in_their_order() -> None:
    async def main(folder: Path) -> None:
        with serving(Site(files={"/m.gguf": Path(model_file(folder)).read_bytes()})) as site:
            async with running_node(node_config(folder)) as rig:
                await rig.started(start_command(site.base + "/m.gguf"))
                rig.command(DrainShard(shard_id="m-1-0"))
                await rig.told(ShardState.DRAINING)
                moves = watched(rig.shard())
                rig.command(stop_command())
                await rig.told(ShardState.STOPPED)
        began = [ShardState.FETCHING, ShardState.STARTING, ShardState.READY, ShardState.DRAINING]
        assert [state for state in rig.states() if state is not ShardState.PENDING][:4] == began
        assert moves == [ShardState.STOPPING, ShardState.STOPPED]

    run(main)


def watched(shard: Shard) -> list[ShardState]:
    """Return a list that grows by each state a shard moves to from now on."""
    moves: list[ShardState] = []
    move = shard.move

    def noting(state: ShardState) -> None:
        moves.append(state)
        move(state)

    shard.move = noting  # type: ignore[method-assign]
    return moves


def test_an_unknown_shard_is_stopped_all_the_same() -> None:
    async def main(folder: Path) -> None:
        async with running_node(node_config(folder)) as rig:
            rig.command(stop_command("never-was-0"))
            await rig.told(ShardState.STOPPED, shard_id="never-was-0")

    run(main)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"not a model at all", "not a GGUF file"), (b"", "not a GGUF file")],
)
def test_a_file_that_is_no_model_is_refused_before_anything_is_started(content: bytes, words: str) -> None:
    async def main(folder: Path) -> None:
        (folder / "bad.gguf").write_bytes(content)
        async with running_node(node_config(folder)) as rig:
            rig.command(start_command(str(folder / "bad.gguf")))
            status = await rig.told(ShardState.FAILED)
            assert words in status.error and status.last_output == []
            assert rig.shard().process is None

    run(main)


def test_a_truncated_model_is_refused_with_both_sizes() -> None:
    async def main(folder: Path) -> None:
        whole = Path(model_file(folder)).read_bytes()
        (folder / "cut.gguf").write_bytes(whole[: len(whole) // 2])
        async with running_node(node_config(folder)) as rig:
            rig.command(start_command(str(folder / "cut.gguf")))
            status = await rig.told(ShardState.FAILED)
            assert f"{len(whole) // 2} bytes of the" in status.error

    run(main)


@pytest.mark.covers("X-12", "X-13", "X-14")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"args": ["--log-file", "x"]}, "argument --log-file is not allowed"),
        ({"args": ["--seed", "/etc/passwd"]}, "argument /etc/passwd is not allowed"),
        ({"args": ["--seed=../x"]}, "argument --seed is not allowed"),
        ({"args": ["@/tmp/more"]}, "argument @/tmp/more is not allowed"),
        ({"env": {"LD_PRELOAD": "x"}}, "variable LD_PRELOAD is not allowed"),
        ({"tp": 2}, "no tensor or pipeline parallelism"),
        ({"engine": "vllm"}, "not driven by this release"),
        ({"engine": "nope"}, "the engines are llamacpp, sglang, sim, trtllm, vllm"),
        ({"model_path": "/nowhere/m.gguf"}, "/nowhere/m.gguf does not exist"),
        ({"model_path": "file:/etc/passwd"}, "none of: an absolute path"),
    ],
)
def test_what_cannot_be_started_is_failed_with_a_sentence(changes: dict, words: str) -> None:
    async def main(folder: Path) -> None:
        import msgspec

        message = start_command(model_file(folder))
        profile = msgspec.structs.replace(message.profile, **changes)
        async with running_node(node_config(folder)) as rig:
            rig.command(msgspec.structs.replace(message, profile=profile))
            status = await rig.told(ShardState.FAILED)
            assert words in status.error
            assert rig.shard().process is None

    run(main)


@pytest.mark.covers("E-131")
def test_an_engine_that_ends_while_starting_is_failed_with_its_status_and_output() -> None:
    async def main(folder: Path) -> None:
        program = script(folder, "engine", "echo 'CUDA error: out of memory'\necho bye\nexit 3\n")
        async with running_node(node_config(folder, program)) as rig:
            rig.command(start_command(model_file(folder)))
            status = await rig.told(ShardState.FAILED)
            assert status.error.startswith("CUDA error: out of memory")
            assert "status 3" in status.error and status.exit_code == 3
            assert status.last_output == ["CUDA error: out of memory", "bye"]

    run(main)


@pytest.mark.covers("E-131")
def test_an_engine_that_never_answers_is_ended_after_its_ready_timeout() -> None:
    async def main(folder: Path) -> None:
        program = script(folder, "engine", "exec sleep 1000\n")
        async with running_node(node_config(folder, program)) as rig:
            import msgspec

            rig.command(msgspec.structs.replace(start_command(model_file(folder)), ready_timeout_ms=300))
            status = await rig.told(ShardState.FAILED)
            assert "not ready within 0.3 s" in status.error
            shard = rig.shard()
            assert shard.process is not None and shard.process.members() == []

    run(main)


def test_a_stop_cancels_a_start_that_is_under_way() -> None:
    async def main(folder: Path) -> None:
        program = script(folder, "engine", "exec sleep 1000\n")
        async with running_node(node_config(folder, program)) as rig:
            rig.command(start_command(model_file(folder)))
            await rig.told(ShardState.STARTING)
            with anyio.fail_after(10):
                while rig.shard().process is None:
                    await anyio.sleep(0.01)
            process = rig.shard().process
            rig.command(stop_command())
            await rig.told(ShardState.STOPPED)
            assert process is not None and process.members() == []

    run(main)


@pytest.mark.covers("E-121")
@pytest.mark.skipif(not is_root(), reason="only root can run engines as another user")
def test_an_engine_is_not_root_and_can_gain_nothing() -> None:
    async def main(folder: Path) -> None:
        program = script(
            folder,
            "engine",
            "id -u; grep NoNewPrivs /proc/self/status; umask; pwd; cat /proc/self/oom_score_adj\n"
            "cat ../shards/*; echo x > /etc/llmgw-proof; env; exec sleep 1000\n",
        )
        async with running_node(node_config(folder, program)) as rig:
            rig.command(start_command(model_file(folder)))
            await rig.told(ShardState.STARTING)
            log_file = folder / "state" / "logs" / "m-1-0.log"
            with anyio.fail_after(10):
                while not log_file.exists() or "LLAMA_API_KEY" not in log_file.read_text():
                    await anyio.sleep(0.02)
            text = log_file.read_text()
            assert text.startswith("65534\n") and "NoNewPrivs:\t1" in text and "0027" in text
            assert str(folder / "state" / "engines") in text and "\n500\n" in text
            assert text.count("ermission denied") == 2 and not Path("/etc/llmgw-proof").exists()
            names = {line.partition("=")[0] for line in text.splitlines() if "=" in line}
            assert names <= {
                "PATH", "HOME", "TMPDIR", "LANG", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LLAMA_API_KEY",
                "LLMGW_SHARD", "PWD", "OLDPWD", "SHLVL", "_",
            }  # fmt: skip

    run(main)


@pytest.mark.covers("P-61")
def test_output_of_a_shard_is_given_on_request_and_cut_from_its_oldest_line() -> None:
    async def main(folder: Path) -> None:
        program = script(
            folder,
            "engine",
            "i=0; while [ $i -lt 700 ]; do printf '%04000d\\n' $i; i=$((i+1)); done; exec sleep 1000\n",
        )
        async with running_node(node_config(folder, program)) as rig:
            rig.command(start_command(model_file(folder)))
            log_file = folder / "state" / "logs" / "m-1-0.log"
            with anyio.fail_after(20):
                while not log_file.exists() or log_file.stat().st_size < 700 * 4001:
                    await anyio.sleep(0.02)
            rig.command(LogsRequest(request_id="r1", shard_id="m-1-0", lines=600))
            rig.command(LogsRequest(request_id="r2", shard_id="../../x", lines=5))
            with anyio.fail_after(10):
                while sum(isinstance(one, LogsReply) for one in rig.said) < 2:
                    await anyio.sleep(0.02)
            replies = {one.request_id: one for one in rig.said if isinstance(one, LogsReply)}
            lines = replies["r1"].lines
            assert replies["r1"].truncated and sum(len(line) + 1 for line in lines) <= 1024 * 1024
            assert lines[-1].endswith("699") and len(lines) > 200
            assert replies["r2"].error and not replies["r2"].lines

    run(main)


def test_register_and_heartbeat_describe_a_machine_without_gpus() -> None:
    async def main(folder: Path) -> None:
        async with running_node(node_config(folder)) as rig:
            registered = await rig.node.register()
            assert registered.node_id == "n1" and registered.gpus == [] and registered.cpu_count > 0
            assert registered.engines_probed and registered.engine_versions["llamacpp"].startswith("b")
            assert registered.engine_versions["sim"] and registered.memory_total_bytes > 0
            assert registered.mgmt_addr == "127.0.0.1" and registered.disk_free_bytes > 0
            beat = await rig.node.heartbeat(7)
            assert beat.seq == 7 and beat.gpu_memory_used_mb == [] and beat.load.memory_total_bytes > 0

    run(main)


@pytest.mark.covers("E-184")
def test_only_unused_files_of_the_cache_are_removed() -> None:
    async def main(folder: Path) -> None:
        async with running_node(node_config(folder)) as rig:
            kept, outside = folder / "weights" / "0123-used.gguf", Path(model_file(folder))
            unused = folder / "weights" / "4567-unused.gguf"
            kept.write_bytes(outside.read_bytes())
            unused.write_bytes(b"x")
            await rig.started(start_command(str(kept)))
            listed = {one.path: one.in_use for one in (await rig.node.heartbeat(1)).weights}
            assert listed == {str(kept): True, str(unused): False}
            rig.command(RemoveWeights(paths=[str(kept), str(outside), "/etc/passwd", str(unused)]))
            with anyio.fail_after(10):
                while unused.exists():
                    await anyio.sleep(0.02)
            assert kept.exists() and outside.exists() and Path("/etc/passwd").exists()

    run(main)


def test_the_simulated_engine_is_started_like_any_other() -> None:
    async def main(folder: Path) -> None:
        async with running_node(node_config(folder)) as rig:
            message = start_command("sim", engine="sim", args=["--ttft", "10ms"])
            await rig.started(message)
            async with httpx.AsyncClient(timeout=30) as client:
                url = f"http://127.0.0.1:{message.http_port}/v1/chat/completions"
                assert (await client.post(url, json=CHAT)).status_code == 401
                headers = {"Authorization": f"Bearer {KEY}"}
                answer = await client.post(url, json=CHAT, headers=headers)
                assert answer.json()["choices"][0]["message"]["content"] == "Simulated answer to: hi"
            rig.command(stop_command())
            await rig.told(ShardState.STOPPED)

    run(main)


@pytest.mark.covers("P-55")
def test_devices_are_given_by_uuid_only_where_one_is_a_mig_instance_and_then_all_in_their_order() -> None:
    async def main(folder: Path) -> None:
        inventory = folder / "gpus.yaml"
        inventory.write_text(
            "- {index: 0, uuid: GPU-0}\n- {index: 1000, uuid: MIG-a, mig: {device: 0}}\n"
            "- {index: 1001, uuid: MIG-b, mig: {device: 1}}\n- {index: 1002, mig: {device: 2}}\n"
        )
        program = script(folder, "engine", "exec sleep 1000\n")
        config = node_config(folder, program, inventory_file=str(inventory))
        async with running_node(config) as rig:
            for number, (indices, uuids) in enumerate(
                [
                    ([0], []),
                    ([1001, 1000], ["MIG-b", "MIG-a"]),
                    ([0, 1000], ["GPU-0", "MIG-a"]),
                    ([1000, 7], []),
                    ([1000, 1002], []),
                ]
            ):
                message = start_command(model_file(folder), f"m-{number}-0")
                rig.command(msgspec.structs.replace(message, gpu_indices=indices))
                await rig.told(ShardState.STARTING, shard_id=message.shard_id)
                spec = rig.shard(message.shard_id).spec
                assert (spec.gpu_indices, spec.gpu_uuids) == (indices, uuids)

    run(main)


def test_a_port_in_use_fails_the_shard_before_anything_is_started() -> None:
    async def main(folder: Path) -> None:
        import socket

        import msgspec

        with socket.socket() as taken:
            port = free_port()
            taken.bind(("127.0.0.1", port))
            taken.listen()
            async with running_node(node_config(folder)) as rig:
                rig.command(msgspec.structs.replace(start_command(model_file(folder)), http_port=port))
                status = await rig.told(ShardState.FAILED)
                assert f"port {port}: Address already in use" in status.error
                assert rig.shard().process is None

    run(main)
