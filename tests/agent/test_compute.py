"""What an engine's output says about where it computes."""

from __future__ import annotations

import pytest

from llmgw.agent.compute import ACCOUNT_LINES, cpu_fault, engine_account, recorded_compute
from llmgw.wire.agent import Compute


@pytest.mark.covers("E-111")
@pytest.mark.parametrize(
    ("lines", "account"),
    [
        (["nothing about it"], None),
        (["load_tensors: offloaded 25/25 layers to GPU"], Compute(backend="GPU", layers_offloaded=25, layers_total=25)),
        (["offloaded 0/25 layers to GPU"], Compute(backend="CPU", layers_total=25)),
        (["ggml_cuda_init: found 0 CUDA devices"], Compute(backend="CPU")),
        (["warning: no usable GPU found, ..."], Compute(backend="CPU")),
        (
            [
                "  Device 0: NVIDIA RTX 4090, compute capability 8.9, VMM: yes",
                "using device CUDA0 (NVIDIA RTX 4090) (0000:01:00.0) - 23000 MiB free",
                "using device CUDA0 (NVIDIA RTX 4090) again",
                "offloaded 3/25 layers to GPU",
            ],
            Compute(backend="CUDA", devices=["CUDA0: NVIDIA RTX 4090 (8.9)"], layers_offloaded=3, layers_total=25),
        ),
        (
            ["using device Vulkan0 (AMD (RADV))", "using device Vulkan1 (Intel)"],
            Compute(backend="Vulkan", devices=["Vulkan0: AMD (RADV", "Vulkan1: Intel"]),
        ),
    ],
)
def test_the_account_is_read_from_the_output(lines: list[str], account: Compute | None) -> None:
    assert engine_account(lines) == account


@pytest.mark.covers("E-111")
def test_a_gpu_placement_that_computes_on_the_cpu_is_a_fault_and_silence_is_none() -> None:
    none_offloaded = engine_account(["offloaded 0/25 layers to GPU"])
    assert cpu_fault([0, 1], none_offloaded) == (
        "placed on GPU [0, 1] but computing on the CPU: it offloaded 0 of 25 layers; "
        "run `llmgw ctl engine-check` on the node"
    )
    assert "saw no device" in (cpu_fault([0], engine_account(["found 0 Vulkan devices"])) or "")
    assert cpu_fault([], none_offloaded) is None and cpu_fault([0], None) is None
    assert ACCOUNT_LINES == 512


def test_what_is_recorded_without_an_account() -> None:
    assert recorded_compute([], None) == Compute(backend="CPU") and recorded_compute([0], None) is None
