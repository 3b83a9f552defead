"""The simulated engine's command line."""

from __future__ import annotations

import pytest

from llmgw.agent.engines.adapter import CannotStart
from llmgw.agent.engines.sim import Sim
from llmgw.agent.shard_spec import ShardSpec
from llmgw.wire.agent import EngineProfile


def test_its_command_names_its_address_model_and_ranks() -> None:
    profile = EngineProfile(engine="sim", served_model_name="demo", args=["--ttft", "1s"])
    spec = ShardSpec(
        replica_id="r", shard_id="r-1", model="m", profile=profile, bind_addr="fd00::2", http_port=7, rank=1, nnodes=2,
        leader_addr="fd00::1", leader_port=9, api_key="secret",
    )  # fmt: skip
    (command,) = Sim(enabled=True).commands(spec, "/engines")
    assert command.args[4:] == [
        "--listen", "[fd00::2]:7", "--model", "demo", "--rank", "1", "--nnodes", "2", "--leader", "[fd00::1]:9",
        "--ttft", "1s",
    ]  # fmt: skip
    assert not Sim(enabled=True).serves_http(spec) and "secret" not in " ".join(command.args)


def test_it_is_offered_only_where_it_is_enabled() -> None:
    off = Sim(enabled=False)
    assert off.program() is None and off.version_command() is None and not off.configured()
    with pytest.raises(CannotStart, match="engines.sim.enabled"):
        off.commands(ShardSpec(replica_id="r", shard_id="r-0", model="m", profile=EngineProfile()), "/engines")
