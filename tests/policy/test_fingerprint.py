from __future__ import annotations

from typing import Any

import pytest

from llmgw.config.model import ModelDefinition
from llmgw.policy.fingerprint import cores, fingerprint, threads
from tests.policy.builds import definition, profile


def of(model: ModelDefinition) -> str:
    return fingerprint(model, model.profiles[0])


def vllm(**more: Any) -> ModelDefinition:
    best = {"engine": "vllm", "gpu_class": "a", "gpus_per_node": 2, **more}
    return definition(source="org/m", profiles=[profile(**best)], adapters="x=org/x")


@pytest.mark.covers("L-31")
def test_what_shapes_the_process_changes_the_fingerprint_and_nothing_else_does() -> None:
    plain, gpu = definition(), vllm()
    shaping = [
        definition(source="/other.gguf"),
        definition(profiles=[profile(engine="sim")]),
        definition(profiles=[profile(gpu_class="l4-22g")]),
        definition(profiles=[profile(args=["--ctx-size", "1"])]),
        definition(profiles=[profile(env={"GGML_X": "1"})]),
        definition(profiles=[profile(cpu_cores=3)]),
        definition(resources={"cpu_cores": 3, "min_memory_gb": 0}),
        definition(adapters="x=/x.gguf"),
        definition(adapters="x=/x.gguf@0.5"),
        gpu,
        vllm(tp=1, pp=2),
        vllm(gpus_per_node=4),
        vllm(kv_events=True),
        definition(source="org/m", profiles=gpu_profiles(), adapters="x=org/x", max_loaded_adapters=1),
    ]
    prints = [of(plain), *(of(m) for m in shaping)]
    twice = {p for p in prints if prints.count(p) > 1}
    assert twice <= {of(definition(profiles=[profile(cpu_cores=3)]))}, "resources.cpu_cores 3 is cpu_cores 3"
    same = [
        definition(scaling={"min": 3}),
        definition(description="d", slo={"ttft_p99": 1}, **{"class": "critical"}),
        definition(profiles=[profile(power_watts=9, keep_within="rack", node_selector={"a": "b"})]),
        definition(profiles=[profile(min_memory_gb=9, ready_timeout="9m")]),
    ]
    assert {of(m) for m in same} == {of(plain)}
    assert len(of(plain)) == 64


def gpu_profiles() -> list[dict[str, Any]]:
    return [profile(engine="vllm", gpu_class="a", gpus_per_node=2)]


@pytest.mark.covers("L-31")
def test_threads_are_the_reserved_cores_on_the_cpu_and_the_engines_own_choice_with_gpus() -> None:
    plain, gpu = definition(), vllm()
    assert (cores(plain, plain.profiles[0]), threads(plain, plain.profiles[0])) == (2, 2)
    assert (cores(gpu, gpu.profiles[0]), threads(gpu, gpu.profiles[0])) == (2, 0)
