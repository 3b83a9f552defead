"""The agent's last lines: passed on, kept whole, bounded."""

from __future__ import annotations

import io

import pytest

from llmgw.agent.agent_log import KEPT_LINES, AgentLog
from llmgw.obs import log


@pytest.mark.covers("P-61")
def test_lines_are_passed_on_and_the_last_are_kept() -> None:
    out = io.StringIO()
    kept = AgentLog(out, keep=3)
    for piece in ("a\nb", "c\n", "d\n", "e\nopen"):
        kept.write(piece)
    kept.flush()
    assert out.getvalue() == "a\nbc\nd\ne\nopen"
    assert KEPT_LINES == 5000
    assert kept.tail(10) == ["bc", "d", "e"] and kept.tail(1) == ["e"] and kept.tail(0) == []


def test_it_is_a_stream_for_the_log() -> None:
    import structlog

    kept = AgentLog(io.StringIO())
    try:
        log.configure("text", "info", kept)  # type: ignore[arg-type]
        log.get("agent").info("a fact", node="n1")
    finally:
        structlog.reset_defaults()
    (line,) = kept.tail(5)
    assert line.endswith("agent: a fact node=n1")
