"""The environment every engine gets, and the checks every engine shares."""

from __future__ import annotations

import os
from typing import Any

import pytest

from llmgw.agent.engines.adapter import engine_environment, profile_fault
from llmgw.agent.shard_spec import ShardSpec, is_shard_id, spec_of
from llmgw.wire.agent import GPU, EngineProfile, StartShard


def _env(env: dict[str, str] | None = None, **changes: Any) -> dict[str, str]:
    spec = ShardSpec(
        replica_id="r", shard_id="r-0", model="m", profile=EngineProfile(engine="sim", env=env or {}), **changes
    )
    return engine_environment(spec, "/engines", "LLMGW_ENGINE_KEY")


@pytest.mark.covers("E-10", "X-12")
def test_the_environment_is_built_from_nothing_and_generated_values_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    base = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/engines", "TMPDIR": "/engines", "LANG": "C.UTF-8"}
    assert _env() == {**base, "CUDA_VISIBLE_DEVICES": "", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert "HTTPS_PROXY" in os.environ
    env = _env({"CUDA_VISIBLE_DEVICES": "3", "LLMGW_ENGINE_KEY": "own", "NCCL_NET": "x"}, api_key="k", gpu_indices=[1])
    assert env["CUDA_VISIBLE_DEVICES"] == "1" and env["LLMGW_ENGINE_KEY"] == "k" and env["NCCL_NET"] == "x"


@pytest.mark.covers("E-14")
def test_the_chosen_adapters_are_named_to_nccl_and_their_absence_fails_at_once() -> None:
    env = _env(hcas=["mlx5_0", "mlx5_1"], gid_index=3, mgmt_interface="eno1", nnodes=2, gpu_indices=[0])
    assert env["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1" and env["NCCL_IB_GID_INDEX"] == "3"
    assert env["NCCL_SOCKET_IFNAME"] == env["GLOO_SOCKET_IFNAME"] == "eno1" and env["NCCL_DEBUG"] == "WARN"
    assert "NCCL_IB_GID_INDEX" not in _env(hcas=["mlx5_0"], nnodes=2)
    assert _env(nnodes=2)["NCCL_IB_DISABLE"] == "1" and "NCCL_IB_DISABLE" not in _env()
    assert _env({"NCCL_DEBUG": "INFO"}, gpu_indices=[0])["NCCL_DEBUG"] == "INFO"


@pytest.mark.covers("E-16")
def test_a_cpu_shards_threads_bound_openmp_unless_the_profile_does() -> None:
    assert _env(threads=4)["OMP_NUM_THREADS"] == "4" and "OMP_NUM_THREADS" not in _env()
    assert _env({"OMP_NUM_THREADS": "9"}, threads=4)["OMP_NUM_THREADS"] == "9"
    assert "OMP_NUM_THREADS" not in _env(threads=4, gpu_indices=[0])


def test_a_key_reaches_only_the_rank_that_serves() -> None:
    assert _env(api_key="k")["LLMGW_ENGINE_KEY"] == "k" and "LLMGW_ENGINE_KEY" not in _env(api_key="k", rank=1)


@pytest.mark.covers("E-3")
def test_a_gpu_older_than_an_engine_takes_is_refused_with_both_figures() -> None:
    profile = EngineProfile(
        name="p", engine="vllm", gpu_class="v100", gpus_per_node=1, nodes=1, tp=1, pp=1, model_path="a/b"
    )
    fault = profile_fault(profile, [GPU(index=0, compute_capability="7.0")])
    assert fault == "profile p: GPU 0 has compute capability 7.0, vllm needs 7.5"
    assert profile_fault(profile, [GPU(index=0, compute_capability="10.0")]) is None


@pytest.mark.covers("E-6")
def test_a_spec_is_the_command_localised_to_this_node() -> None:
    message = StartShard(replica_id="r", shard_id="r-0", model="m", mgmt_interface="hint", http_port=5, api_key="k")
    assert spec_of(message, "10.0.0.7", "eno1", []).mgmt_interface == "eno1"
    assert spec_of(message, "10.0.0.7", "", []).mgmt_interface == "hint"
    assert spec_of(message, "10.0.0.7", "", []).nnodes == 1
    assert is_shard_id("qwen-7k2m9d-0")
    assert not any(is_shard_id(bad) for bad in ("", ".", "..", "a/b", "../x", ".hidden", "a\n", "x" * 129))
