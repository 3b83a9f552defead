"""How an engine's end is put into words."""

from __future__ import annotations

import pytest

from llmgw.agent.exit_report import exit_sentence


@pytest.mark.covers("E-135")
@pytest.mark.parametrize(
    ("code", "output", "sentence"),
    [
        (0, [], "the engine exited with status 0"),
        (3, ["one", "two", ""], "the engine exited with status 3; its last line: two"),
        (137, [], "the engine was killed by SIGKILL"),
        (139, ["x"], "the engine was killed by SIGSEGV; its last line: x"),
        (255, [], "the engine exited with status 255"),
        (1, ["CUDA error: an illegal access", "bye"], "CUDA error: an illegal access (the engine exited with status 1)"),
        (1, ["torch.OutOfMemoryError: x"], "torch.OutOfMemoryError: x (the engine exited with status 1)"),
    ],
)
def test_status_signal_and_the_telling_line(code: int, output: list[str], sentence: str) -> None:
    assert exit_sentence(code, output) == sentence


def test_an_adopted_engines_status_is_said_to_be_unknown() -> None:
    assert "not known" in exit_sentence(-1, [])
