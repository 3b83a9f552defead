from __future__ import annotations

import pytest

from llmgw.policy.source import is_path, source_fault


@pytest.mark.covers("E-180")
@pytest.mark.parametrize(
    "source",
    ["/m/x.gguf", "http://h/x.gguf", "https://h:8/dir/", "https://h/x.gguf#sha256=" + "0" * 64, "hf:o/r/a/b.gguf",
     "hf:o/r/f.gguf@main", "org/repo", "Qwen/Qwen2.5-0.5B-Instruct-GGUF"],
)  # fmt: skip
def test_every_form_is_taken(source: str) -> None:
    assert source_fault(source) is None


@pytest.mark.covers("E-180")
@pytest.mark.parametrize(
    "source",
    ["", "x.gguf", "./x", "../o/r", "file:///x", "ftp://h/x", "http://", "https://u:p@h/x", "https://u@h/x", "hf:o/r",
     "hf:o/r/../x", "/m/../etc/passwd", "a/b/c", "o/r\n", "/x\0", "http://[::1/x", "pypi:x==1", "/" + "x" * 5000],
)  # fmt: skip
def test_every_other_form_is_refused(source: str) -> None:
    assert source_fault(source)


def test_a_path_is_the_nodes_own() -> None:
    assert is_path("/m/x.gguf")
    assert not is_path("http://h/x")
