"""The simulated engine's command line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import llmgw
from llmgw.agent.engines.adapter import CannotStart
from llmgw.agent.engines.sim import Sim
from llmgw.agent.shard_spec import ShardSpec
from llmgw.wire.agent import EngineProfile


@pytest.mark.covers("E-88")
def test_its_command_names_its_address_model_and_ranks() -> None:
    profile = EngineProfile(engine="sim", served_model_name="demo", args=["--ttft", "1s"])
    spec = ShardSpec(
        replica_id="r", shard_id="r-1", model="m", profile=profile, bind_addr="fd00::2", http_port=7, rank=1, nnodes=2,
        leader_addr="fd00::1", leader_port=9, api_key="secret",
    )  # fmt: skip
    (command,) = Sim(enabled=True).commands(spec, "/engines")
    assert command.args[:4] == ["-P", "-m", "llmgw", "sim-engine"]
    assert command.args[4:] == [
        "--listen", "[fd00::2]:7", "--model", "demo", "--rank", "1", "--nnodes", "2", "--leader", "[fd00::1]:9",
        "--ttft", "1s",
    ]  # fmt: skip
    assert not Sim(enabled=True).serves_http(spec) and "secret" not in " ".join(command.args)


def test_the_program_finds_itself_whatever_the_folder_and_the_profile_say(tmp_path: Path) -> None:
    profile = EngineProfile(engine="sim", env={"PYTHONPATH": str(tmp_path)})
    spec = ShardSpec(replica_id="r", shard_id="r-0", model="m", profile=profile, bind_addr="127.0.0.1", http_port=7)
    (command,) = Sim(enabled=True).commands(spec, str(tmp_path))
    (tmp_path / "llmgw.py").write_text("raise SystemExit('another program')")
    done = subprocess.run(
        [command.path, *command.args[:4], "--help"], cwd=tmp_path, env=command.env, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0 and "simulated inference engine" in done.stdout, done.stderr


def test_its_version_is_what_the_program_says_when_it_is_started() -> None:
    sim = Sim(enabled=True)
    command = sim.version_command()
    assert command is not None
    said = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True, check=False, timeout=60)
    assert sim.version_in(said.stdout) == llmgw.__version__, said.stderr
    assert sim.version_in("Traceback (most recent call last):") is None


def test_it_is_offered_only_where_it_is_enabled() -> None:
    off = Sim(enabled=False)
    assert off.program() is None and off.version_command() is None and not off.configured()
    with pytest.raises(CannotStart, match="engines.sim.enabled"):
        off.commands(ShardSpec(replica_id="r", shard_id="r-0", model="m", profile=EngineProfile()), "/engines")
