"""An engine's output is read from its end and rotated under an engine that goes on writing."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from llmgw.agent.log_ring import KEPT_FILES, ShardLog, prune_logs


@pytest.mark.covers("P-61")
def test_the_last_lines_come_back_oldest_first(tmp_path: Path) -> None:
    log = ShardLog(tmp_path, "s")
    assert log.tail(5) == []
    fd = log.open_for_engine()
    os.write(fd, b"".join(b"line %d\n" % number for number in range(50_000)))
    assert log.tail(3) == ["line 49997", "line 49998", "line 49999"]
    assert log.tail(0) == [] and len(log.tail(20_000)) == 20_000
    os.write(fd, b"no end \xff")
    assert log.tail(1) == ["no end \ufffd"]
    os.close(fd)


def test_a_flooding_engine_is_rotated_and_writes_on(tmp_path: Path) -> None:
    log = ShardLog(tmp_path, "s")
    fd = log.open_for_engine()
    for round_ in range(6):
        os.write(fd, b"".join(b"%d-%d\n" % (round_, number) for number in range(1000)))
        assert log.rotate(limit_bytes=1000)
        assert log.path.stat().st_size == 0
    os.write(fd, b"after\n")
    assert not log.rotate(limit_bytes=1000)
    assert log.tail(3) == ["5-998", "5-999", "after"]
    assert len(list(tmp_path.iterdir())) == KEPT_FILES
    os.close(fd)


def test_a_new_run_does_not_show_the_last_ones_end_as_its_own(tmp_path: Path) -> None:
    log = ShardLog(tmp_path, "s")
    for word in (b"first\n", b"second\n"):
        fd = log.open_for_engine()
        os.write(fd, word)
        os.close(fd)
    assert log.path.read_text() == "second\n" and log.tail(2) == ["first", "second"]


def test_a_line_without_end_does_not_fill_memory(tmp_path: Path) -> None:
    log = ShardLog(tmp_path, "s")
    fd = log.open_for_engine()
    os.write(fd, b"x" * (12 * 1024 * 1024))
    os.close(fd)
    assert [len(line) for line in log.tail(20)] == [4096]


def test_output_of_long_ended_shards_is_dropped_but_not_of_running_ones(tmp_path: Path) -> None:
    for number in range(6):
        path = ShardLog(tmp_path, f"s{number}").path
        path.write_text("x")
        os.utime(path, (number, number))
    prune_logs(tmp_path, frozenset({"s0"}), keep=2)
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["s0", "s4", "s5"]


def test_output_that_cannot_be_copied_on_a_full_disk_is_dropped_and_makes_room(tmp_path: Path) -> None:
    """The copy raised in the agent's own loop and ended the agent. A limit on file sizes stands in for the disk."""
    log = ShardLog(tmp_path, "s")
    log.path.write_bytes(b"x" * 50_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        assert log.rotate(limit_bytes=10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert log.path.stat().st_size == 0
    assert list(tmp_path.iterdir()) == [log.path]
