"""The supervisor checks where an engine computes, saves what it runs, and never restarts."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import anyio
import msgspec
import pytest

from llmgw.wire.agent import ShardState
from tests.agent.node_rig import model_file, node_config, run, running_node, script, start_command

SERVES = """import http.server, json, sys
print(sys.argv[1], flush=True)
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("asked for", self.path, flush=True)
        body = json.dumps({"data": [{"id": "m"}]}).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        self.do_GET()
    def log_message(self, *a): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), H).serve_forever()
"""


def _engine(folder: Path, says: str) -> str:
    """Write a program that says a line and then answers everything like an engine."""
    (folder / "serve.py").write_text(SERVES)
    (folder / "serve.py").chmod(0o644)
    return script(
        folder,
        "engine",
        f'while [ "$1" != --port ]; do shift; done\nexec /usr/bin/python3 -I {folder}/serve.py "{says}" $2\n',
    )


@pytest.mark.covers("E-111")
def test_a_gpu_shard_that_computes_on_the_cpu_is_failed_and_ended() -> None:
    async def main(folder: Path) -> None:
        config = node_config(folder, _engine(folder, "load_tensors: offloaded 0/25 layers to GPU"))
        async with running_node(config) as rig:
            rig.command(msgspec.structs.replace(start_command(model_file(folder)), gpu_indices=[0]))
            status = await rig.told(ShardState.FAILED)
            assert status.error.startswith(
                "placed on GPU [0] but computing on the CPU: it offloaded 0 of 25 layers"
            )
            process = rig.shard().process
            assert process is not None and process.members() == []

    run(main)


@pytest.mark.covers("E-111")
def test_a_gpu_shard_that_says_where_it_computes_or_nothing_is_ready() -> None:
    async def main(folder: Path) -> None:
        async with running_node(node_config(folder, _engine(folder, "using device CUDA0 (RTX)"))) as rig:
            message = msgspec.structs.replace(start_command(model_file(folder)), gpu_indices=[0])
            shard = await rig.started(message)
            assert shard.compute is not None and shard.compute.devices == ["CUDA0: RTX"]
        async with running_node(node_config(folder, _engine(folder, "hello"))) as rig:
            shard = await rig.started(msgspec.structs.replace(message, shard_id="m-2-0"))
            assert shard.compute is None

    run(main)


@pytest.mark.covers("E-141")
def test_a_shard_is_saved_before_it_is_ready_updated_with_its_compute_and_removed_on_stop() -> None:
    async def main(folder: Path) -> None:
        from llmgw.agent.saved import SavedShards

        saved = folder / "state" / "shards" / "m-1-0.json"
        async with running_node(node_config(folder)) as rig:
            rig.command(start_command(model_file(folder)))
            with anyio.fail_after(20):
                while not saved.exists():
                    await anyio.sleep(0.001)
            await rig.told(ShardState.READY)
            mode = saved.stat()
            assert stat.S_IMODE(mode.st_mode) == 0o600 and mode.st_uid == os.geteuid()
            (one,), _ = SavedShards(saved.parent).read_all()
            process = rig.shard().process
            assert process is not None and one.identity() == process.identity and one.was_ready
            assert one.spec.compute is not None and one.spec.api_key
        assert not saved.exists()

    run(main)


@pytest.mark.covers("E-130")
def test_an_engine_that_ends_is_not_started_again() -> None:
    async def main(folder: Path) -> None:
        program = script(folder, "engine", f"echo x >> {folder}/starts\nexit 1\n")
        (folder / "starts").touch()
        (folder / "starts").chmod(0o666)
        async with running_node(node_config(folder, program)) as rig:
            rig.command(start_command(model_file(folder)))
            await rig.told(ShardState.FAILED)
            # In the time in which another one starts and ends, this one would have come again.
            rig.command(start_command(model_file(folder), "m-2-0"))
            await rig.told(ShardState.FAILED, shard_id="m-2-0")
            assert (folder / "starts").read_text() == "x\nx\n"
            assert rig.shard().state is ShardState.FAILED

    run(main)


@pytest.mark.covers("F-23")
def test_children_of_an_engine_that_died_while_serving_are_ended() -> None:
    async def main(folder: Path) -> None:
        program = Path(_engine(folder, "hello"))
        program.write_text(program.read_text().replace("while", "sleep 1000 &\nwhile", 1))
        async with running_node(node_config(folder, str(program))) as rig:
            shard = await rig.started(start_command(model_file(folder)))
            assert shard.process is not None and len(shard.process.members()) == 2
            os.kill(shard.process.identity.pid, signal.SIGKILL)
            await rig.told(ShardState.FAILED)
            assert shard.process.members() == []

    run(main)


@pytest.mark.covers("E-136")
def test_a_ready_engine_is_asked_no_more_and_one_that_stopped_answering_stays_ready() -> None:
    """Who notices a hung one is the router, by its own scrape: tests/gateway/test_scrape.py."""

    async def main(folder: Path) -> None:
        async with running_node(node_config(folder, _engine(folder, "hello"))) as rig:
            first = await rig.started(start_command(model_file(folder)))
            assert first.process is not None
            asked = (folder / "state" / "logs" / "m-1-0.log").read_text()
            assert asked.count("asked for /health") == 1
            os.kill(first.process.identity.pid, signal.SIGSTOP)
            # By the time another engine has started and is ready, a probe of this one would have come and failed.
            await rig.started(start_command(model_file(folder), "m-2-0"))
            assert first.state is ShardState.READY
            os.kill(first.process.identity.pid, signal.SIGCONT)
            assert (folder / "state" / "logs" / "m-1-0.log").read_text() == asked

    run(main)
