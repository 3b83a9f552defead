"""A node's link as the control plane holds it, apart from the port."""

from __future__ import annotations

from typing import Any

from llmgw.control.node_link import QUEUE_COMMANDS, NodeLink
from llmgw.wire.agent import LogsReply, StopShard


class _Incoming:
    peer_address = "10.0.0.7"
    serial = "0a"
    issued_unix = 1.0
    stream: Any = None


def _link() -> NodeLink:
    return NodeLink("n1", _Incoming())  # type: ignore[arg-type]


def test_a_full_queue_takes_no_more() -> None:
    link = _link()
    assert all(link.queue(StopShard(), 1, {}) for _ in range(QUEUE_COMMANDS))
    assert not link.queue(StopShard(), 1, {})


def test_nothing_is_queued_on_a_link_that_ends_and_the_first_reason_stands() -> None:
    link = _link()
    link.end("replaced", "first")
    link.end("shutdown", "second")
    assert (link.reason, link.is_ending()) == ("first", True)
    assert not link.queue(StopShard(), 1, {})


def test_heartbeats_count_only_while_their_number_rises() -> None:
    link = _link()
    assert [link.is_next(seq) for seq in (1, 2, 2, 1, 5, 4)] == [True, True, False, False, True, False]


def test_unknown_tags_are_new_once_and_not_remembered_without_end() -> None:
    link = _link()
    assert [link.is_new_tag(tag) for tag in ("a", "b", "a")] == [True, True, False]
    assert sum(link.is_new_tag(str(number)) for number in range(1000)) == 98


def test_a_reply_finds_its_request_and_a_late_one_is_dropped() -> None:
    link = _link()
    with link.expecting("1") as one:
        link.answer(LogsReply(request_id="2"))
        assert one.value is None
        link.answer(LogsReply(request_id="1", lines=["x"]))
        assert one.arrived.is_set()
    assert one.value == LogsReply(request_id="1", lines=["x"])
    link.answer(LogsReply(request_id="1"))


def test_closing_frees_whoever_waits() -> None:
    link = _link()
    with link.expecting("1") as one:
        link.close()
        assert one.arrived.is_set()
        assert one.value is None
