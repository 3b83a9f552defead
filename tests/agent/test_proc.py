"""/proc's lines, whatever a process calls itself."""

from __future__ import annotations

import os

from llmgw.agent.proc import environment_value, group_members, parse_stat, process_group, read_stat


def test_the_group_is_the_third_field_after_the_last_parenthesis() -> None:
    fields = "S 1 77 66 0 -1 4194304 1 0 0 0 5 7 0 0 20 0 1 0 12345 1000 250 " + "0 " * 20
    for name in ("sh", "a b", "x) S 9 9 (y", ")("):
        stat = parse_stat(f"42 ({name}) {fields}")
        assert stat is not None and (stat.pid, stat.name, stat.state) == (42, name, "S")
        assert (stat.group, stat.session, stat.start_ticks) == (77, 66, 12345)
        assert (stat.cpu_ticks, stat.resident_pages) == (12, 250) and stat.is_alive
    for broken in ("", "42 (sh", "42 (sh) S 1", "x (sh) " + fields):
        assert parse_stat(broken) is None
    assert process_group(os.getpid()) == os.getpgrp()
    assert process_group(2**22 + 1) is None


def test_members_are_found_by_group_or_session_and_only_of_that_very_leader() -> None:
    own = read_stat(os.getsid(0)) or read_stat(os.getpid())
    assert own is not None
    if own.pid == os.getsid(0):
        assert os.getpid() in [stat.pid for stat in group_members(own.pid, own.start_ticks)]
    assert group_members(own.pid, own.start_ticks + 1) == []


def test_a_variable_a_process_was_started_with_is_read() -> None:
    started_with = environment_value(os.getpid(), "PATH")
    assert started_with is not None and "/" in started_with
    assert environment_value(os.getpid(), "NO_SUCH_NAME") is None and environment_value(2**22 + 1, "PATH") is None
