"""Which engines a node has."""

from __future__ import annotations

import pytest

from llmgw.agent.engines.adapter import CannotStart
from llmgw.agent.engines.registry import EngineRegistry
from llmgw.config.agent import EngineSettings


def test_engines_are_found_by_name_and_unknown_ones_are_told_which_there_are() -> None:
    registry = EngineRegistry(EngineSettings())
    assert registry.adapter("llamacpp").name == "llamacpp" and sorted(registry.adapters()) == ["llamacpp", "sim"]
    with pytest.raises(CannotStart, match="the engines are llamacpp, sglang, sim, trtllm, vllm"):
        registry.adapter("ollama")
    with pytest.raises(CannotStart, match="not driven by this release of the agent, which drives llamacpp, sim"):
        registry.adapter("vllm")


def test_a_disabled_engine_is_not_there() -> None:
    registry = EngineRegistry(EngineSettings(disabled=["llamacpp"]))
    assert "llamacpp" not in registry.adapters()
    with pytest.raises(CannotStart, match="disabled on this node"):
        registry.adapter("llamacpp")
