"""Saved shards: whole or absent, the agent's alone, and what cannot be read is forgotten with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmgw.agent.saved import SavedShard, SavedShards
from llmgw.agent.shard_spec import ShardSpec
from llmgw.wire.agent import Compute, EngineProfile


@pytest.mark.covers("E-6")
def test_a_saved_shard_comes_back_as_it_was_and_is_readable_by_nobody_else(tmp_path: Path) -> None:
    profile = EngineProfile(name="p", engine="llamacpp", args=["--jinja"], env={"OMP_NUM_THREADS": "2"})
    spec = ShardSpec(
        replica_id="r", shard_id="r-0", model="m", profile=profile, api_key="k", gpu_indices=[1], http_port=5,
        compute=Compute(backend="CPU"),
    )  # fmt: skip
    saved = SavedShard(spec=spec, pid=7, start_ticks=8, command="llama-server", was_ready=True)
    directory = SavedShards(tmp_path)
    directory.write(saved)
    directory.write(saved)
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert directory.read_all() == ([saved], [])
    assert "k" not in repr(spec).split("(")[1].split(",")[0] and "api_key" not in repr(spec)
    directory.remove("r-0")
    directory.remove("r-0")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_file_is_forgotten_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_bytes(b"\xff")
    found, faults = SavedShards(tmp_path).read_all()
    assert found == [] and len(faults) == 2 and "a.json" in faults[0]
    assert list(tmp_path.iterdir()) == []
