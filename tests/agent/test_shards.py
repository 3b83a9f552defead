"""A shard's states, and what is said of it."""

from __future__ import annotations

from llmgw.agent.shard_spec import ShardSpec
from llmgw.agent.shards import ShardTable
from llmgw.wire.agent import Compute, EngineProfile, FetchProgress, LoraAdapter, ShardState


def _spec() -> ShardSpec:
    profile = EngineProfile(
        name="cpu", engine="llamacpp", model_path="/w/m", adapters=[LoraAdapter(name="a", source="/w/a")]
    )
    return ShardSpec(replica_id="r", shard_id="r-0", model="m", profile=profile, http_port=5, profile_fp="fp", pool="cpu")


def test_every_move_wakes_whoever_waits_and_progress_belongs_to_fetching() -> None:
    table = ShardTable()
    shard = table.add(_spec())
    before = table.changed
    shard.fetch = FetchProgress(source="s")
    shard.move(ShardState.FETCHING)
    assert before.is_set() and shard.status("n").fetch is not None
    shard.move(ShardState.STARTING)
    assert shard.status("n").fetch is None and not shard.is_ended


def test_register_says_what_a_control_plane_needs_to_adopt_it() -> None:
    table = ShardTable()
    shard = table.add(_spec())
    shard.knows(Compute(backend="CPU"))
    shard.move(ShardState.READY)
    running = shard.running("10.0.0.7")
    assert (running.profile, running.engine, running.http_port, running.profile_fp) == ("cpu", "llamacpp", 5, "fp")
    assert running.leader_addr == "10.0.0.7" and running.compute == Compute(backend="CPU")
    assert shard.status("n").compute == Compute(backend="CPU")


def test_files_of_living_shards_are_in_use_and_an_ended_one_gives_way_to_a_new_one() -> None:
    table = ShardTable()
    shard = table.add(_spec())
    assert table.paths_in_use() == {"/w/m", "/w/a"}
    shard.fail("x")
    assert table.paths_in_use() == frozenset() and table.living() == []
    assert table.add(_spec()) is table.get("r-0") is not shard
    table.remove(shard)
    assert table.get("r-0") is not None
