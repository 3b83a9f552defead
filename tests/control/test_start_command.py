from __future__ import annotations

from typing import Any

import pytest

from llmgw.control.replicas import Replica
from llmgw.control.start_command import launch_settings, start_command
from llmgw.policy.snapshot import Share
from tests.policy.builds import definition, profile


def test_the_command_says_everything_the_agent_needs() -> None:
    chat = definition(adapters="fr=/fr.gguf@0.5", profiles=[profile(args=["--jinja"], ready_timeout="90s")])
    replica = Replica(
        id="chat-x", shard_id="chat-x-0", model="chat", profile="cpu", engine="llamacpp", pool="cpu",
        fingerprint="fp", source="/m.gguf", share=Share(node="a", cores=2), port=20003,
    )  # fmt: skip
    start = start_command(chat, chat.profiles[0], replica, "10.0.0.1", "key")
    assert (start.replica_id, start.shard_id, start.http_port, start.api_key) == ("chat-x", "chat-x-0", 20003, "key")
    assert (start.threads, start.ready_timeout_ms, start.profile_fp, start.pool) == (2, 90_000, "fp", "cpu")
    sent = start.profile
    assert (sent.model_path, sent.served_model_name, sent.args) == ("/m.gguf", "chat", ["--jinja"])
    assert [(a.name, a.source) for a in sent.adapters] == [("fr", "/fr.gguf")]


def vllm(**more: Any) -> Any:
    best = profile(engine="vllm", gpu_class="a", **more)
    return definition(source="o/m", profiles=[best], adapters="x=o/x", max_loaded_adapters=3)


@pytest.mark.covers("E-24", "E-103")
def test_adapters_on_demand_switch_vllm_on_without_touching_the_profile() -> None:
    model = vllm(args=["--max-model-len", "9"])
    args, env = launch_settings(model, model.profiles[0])
    assert args == ["--enable-lora", "--max-loras", "3", "--max-model-len", "9"]
    assert env == {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
    assert model.profiles[0].env == {}
    own = vllm(args=["--max-loras=8"])
    assert launch_settings(own, own.profiles[0])[0] == ["--enable-lora", "--max-loras=8"]
    plain = definition(adapters="x=/x.gguf")
    assert launch_settings(plain, plain.profiles[0]) == ([], {})
