"""Which control plane is dialled next, and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.agent.dial import Address, Backoff, Ended, Rounds, merged, normalise
from llmgw.config.refusal import Refused

A, B, C = (Address("https", name, 7443) for name in ("a", "b", "c"))
LOST = Ended(was_heard=False)
HEARD = Ended(was_heard=True)


def _rounds(addresses: list[Address], jitter: float = 0.0) -> Rounds:
    return Rounds(Backoff(lambda: jitter), lambda: addresses, has_tls=True)


@pytest.mark.covers("P-10")
@pytest.mark.parametrize(
    ("entry", "has_tls", "read"),
    [
        ("cp-1", True, "https://cp-1:7443"),
        ("cp-1", False, "http://cp-1:7443"),
        ("cp-1:8000", True, "https://cp-1:8000"),
        ("https://cp-1:8000", True, "https://cp-1:8000"),
        ("https://cp-1", True, "https://cp-1:7443"),
        (" HTTPS://CP-1/ ", True, "https://cp-1:7443"),
        ("http://10.0.0.1", False, "http://10.0.0.1:7443"),
        ("[fd00::1]", True, "https://[fd00::1]:7443"),
        ("[fd00::1]:9", True, "https://[fd00::1]:9"),
        ("fd00::1", True, "https://[fd00::1]:7443"),
    ],
)
def test_an_address_is_read_in_every_form_and_completed(entry: str, has_tls: bool, read: str) -> None:
    assert str(normalise(entry, has_tls)) == read
    assert merged([], [entry], has_tls) == [normalise(entry, has_tls)]


@pytest.mark.covers("P-10")
@pytest.mark.parametrize(
    "entry",
    [
        "",
        "https://",
        "ftp://cp",
        "cp:",
        "cp:0",
        "cp:70000",
        "cp:x",
        "a b",
        "cp/path",
        "u@cp",
        "[fd00::1",
        "[cp]x",
        "-cp",
    ],
)
def test_what_cannot_be_read_is_fatal_in_agent_yaml_and_skipped_in_the_leaders_list(entry: str) -> None:
    with pytest.raises(Refused) as refused:
        normalise(entry, has_tls=True)
    assert repr(entry) in refused.value.sentence
    assert merged([A], [entry, "b"], has_tls=True) == [A, B]


def test_mixed_forms_are_refused_naming_the_address() -> None:
    with pytest.raises(Refused, match="'https://cp' is https, but agent.yaml has no tls"):
        normalise("https://cp", has_tls=False)
    with pytest.raises(Refused, match="'http://cp' is http, but agent.yaml has a tls"):
        normalise("http://cp", has_tls=True)


@pytest.mark.covers("P-70")
def test_the_leaders_list_only_ever_adds() -> None:
    assert merged([B, A], ["https://c:7443", "a"], has_tls=True) == [B, A, C]
    assert merged([B, A], [], has_tls=True) == [B, A]


@pytest.mark.covers("P-26")
def test_an_untried_address_is_dialled_at_once_and_a_full_round_waits() -> None:
    rounds = _rounds([A, B, C])
    assert (rounds.first().address, rounds.first().delay_s) == (A, 0.0)
    steps = [rounds.after(LOST, float(second)) for second in range(6)]
    assert [step.address for step in steps] == [B, C, A, B, C, A]
    assert [step.delay_s for step in steps] == [0.0, 0.0, 0.5, 0.0, 0.0, 1.0]
    assert [step.attempt for step in steps] == [2, 3, 4, 5, 6, 7]
    alone = _rounds([A])
    assert [alone.after(end, 0.0).delay_s for end in (LOST, HEARD, HEARD)] == [0.5, 0.5, 0.5]


@pytest.mark.covers("P-26")
def test_however_a_link_ended_the_next_address_follows() -> None:
    for ended in (LOST, HEARD, Ended(False, is_barred=True), Ended(True, is_barred=True)):
        assert _rounds([A, B]).after(ended, 0.0).address == B
        assert _rounds([A, B]).after(ended, 0.0).delay_s == 0.0


@pytest.mark.covers("P-24")
def test_a_hinted_leader_is_tried_next_only_when_it_is_known_and_untried() -> None:
    assert _rounds([A, B, C]).after(Ended(False, leader_hint="https://c:7443"), 0.0).address == C
    assert _rounds([A, B, C]).after(Ended(False, leader_hint="https://evil:7443"), 0.0).address == B
    assert _rounds([A, B, C]).after(Ended(False, leader_hint="http://c:7443"), 0.0).address == B
    assert _rounds([A, B, C]).after(Ended(False, leader_hint="https://a:7443"), 0.0).address == B


@pytest.mark.covers("P-29")
def test_the_list_is_read_afresh_each_round() -> None:
    addresses = [A]
    rounds = Rounds(Backoff(lambda: 0.0), lambda: addresses, has_tls=True)
    addresses = [A, B]
    assert rounds.after(LOST, 0.0).address == A
    assert rounds.after(LOST, 1.0).address == B
    addresses = [C]
    assert rounds.after(LOST, 2.0).address == C
    addresses = [C, A]
    heard = rounds.after(HEARD, 3.0)
    assert (heard.address, heard.delay_s) == (A, 0.0)


@pytest.mark.covers("P-27")
def test_the_wait_doubles_to_thirty_seconds_but_stays_low_in_the_first_minute() -> None:
    backoff = Backoff(lambda: 0.0)
    assert [backoff.wait_s(float(second)) for second in (0, 1, 2, 4, 6)] == [0.5, 1.0, 2.0, 2.0, 2.0]
    assert [backoff.wait_s(60.0 + second) for second in (0, 20, 50, 80)] == [16.0, 30.0, 30.0, 30.0]


@pytest.mark.covers("P-27")
@given(st.lists(st.floats(0, 100), min_size=1, max_size=40), st.floats(-1, 1))
def test_a_wait_is_within_a_fifth_of_its_figure_and_its_bounds(gaps_s: list[float], jitter: float) -> None:
    backoff, plain = Backoff(lambda: jitter), Backoff(lambda: 0.0)
    now_s = 0.0
    for gap_s in gaps_s:
        wait_s, plain_s = backoff.wait_s(now_s), plain.wait_s(now_s)
        bound_s = 2.0 if now_s < 60 else 36.0
        assert 0.4 <= wait_s <= bound_s
        assert plain_s * 0.8 <= wait_s <= plain_s * 1.2 + 1e-9
        now_s += gap_s


@pytest.mark.covers("P-27")
def test_every_outage_begins_at_the_bottom_so_the_third_failover_is_as_quick_as_the_first() -> None:
    for jitter in (-1.0, 0.0, 1.0):
        rounds = _rounds([A, B], jitter)
        now_s = 0.0
        spent_s = []
        for _ in range(3):
            began_s = now_s
            step = rounds.after(HEARD, now_s)
            for _ in range(3):  # Neither control plane leads for two rounds, then one does.
                now_s += step.delay_s
                step = rounds.after(LOST, now_s)
            now_s += step.delay_s
            spent_s.append(now_s - began_s)
            now_s += 3600.0
        assert max(spent_s) <= 2.0
        assert spent_s[0] == pytest.approx(spent_s[2])
    # A long outage waits long, and one message heard ends that.
    backoff = Backoff(lambda: 0.0)
    waits_s = [backoff.wait_s(float(second)) for second in range(0, 300, 10)]
    assert waits_s[-1] == 30.0
    backoff.heard()
    assert backoff.wait_s(1000.0) == 0.5


def test_a_node_that_was_refused_as_such_waits_the_longest_delay_only() -> None:
    rounds = _rounds([A, B])
    assert rounds.after(Ended(False, is_barred=True), 0.0).delay_s == 0.0
    assert rounds.after(LOST, 0.0).delay_s == 30.0
    alone = _rounds([A])
    assert alone.after(Ended(True, is_barred=True), 0.0).delay_s == 30.0
    assert alone.after(HEARD, 30.0).delay_s == 0.5
