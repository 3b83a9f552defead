"""The control port's bytes."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.ports import Found, LeaseAsk, LeaseGrant, Principal, Report, Snapshot, UsageRow
from llmgw.wire import control_port as wire

ROW = UsageRow("u", "r", 1.5, "chat.completions", False, "k", "project", "p", "t", "o", "", "m")
PRINCIPAL = Principal("k", "project", "h", "o", "t", "p", "", models=("a",))
CALLS = [
    wire.Feed(1, 7),
    wire.Lookup(2, "ab"),
    wire.Lease(3, LeaseAsk("rpm:k", 1, "gw", 2)),
    wire.Reported(4, Report("gw", rows=(ROW,), inflight={"r": 1})),
    wire.Cancel(1),
]
ANSWERS = [
    wire.Fed(1, Snapshot(9)),
    wire.LookedUp(2, Found(PRINCIPAL, 3)),
    wire.Leased(3, LeaseGrant(1, 5.0, True)),
    wire.Noted(4),
    wire.Away(5, "gone"),
    wire.Failed(6, "broken"),
]


@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_calls_and_answers_come_back_as_they_went_in_pieces_of_any_size(size):
    for messages, decode in ((CALLS, wire.decode_call), (ANSWERS, wire.decode_answer)):
        data = b"".join(map(wire.frame, messages))
        frames = wire.Frames()
        bodies = [body for at in range(0, len(data), size) for body in frames.feed(data[at : at + size])]
        assert [decode(body) for body in bodies] == messages


def test_a_frame_beyond_the_bound_is_refused_before_it_is_held():
    with pytest.raises(wire.BadFrame):
        wire.Frames().feed(struct.pack(">I", wire.LARGEST_FRAME_BYTES + 1))


@given(st.binary(max_size=200))
def test_garbage_is_a_bad_frame_and_nothing_else(body):
    for decode in (wire.decode_call, wire.decode_answer):
        try:
            decode(body)
        except wire.BadFrame:
            continue
