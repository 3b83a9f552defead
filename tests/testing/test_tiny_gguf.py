"""Tiny models: equal bytes every time, headers that read, answers that are fixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmgw.testing.tiny_gguf import KINDS, main, tiny_gguf
from llmgw.wire.gguf import read_header


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_a_whole_gguf_and_the_same_bytes_every_time(kind: str) -> None:
    data = tiny_gguf(kind)
    header = read_header(data, len(data))
    assert header.architecture == "llama" and header.tensor_count == (2 if kind == "lora" else 21)
    assert data == tiny_gguf(kind) and len(data) < 1_000_000


def test_the_command_writes_a_file_and_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "m.gguf"
    assert main(["chat", str(out), "--reply", " Yes and yes and no."]) == 0
    assert out.read_bytes() == tiny_gguf("chat", " Yes and yes and no.") != tiny_gguf("chat")
    with pytest.raises(ValueError, match="kind is one of"):
        tiny_gguf("other")
