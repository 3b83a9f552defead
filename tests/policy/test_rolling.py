from __future__ import annotations

from llmgw.policy.rolling import ROOM_WAIT_S, Census, census, in_place, surplus, wants_replacement
from llmgw.policy.snapshot import ReplicaSeen
from tests.policy.builds import definition, replica

CHAT = definition()


def old(name: str, phase: str = "ready") -> ReplicaSeen:
    return replica(CHAT, name, "a", phase, fingerprint="old")


def seen(*replicas: ReplicaSeen) -> Census:
    return census(CHAT, replicas)


def gone(found: Census, desired: int) -> list[str]:
    return [r.replica.id for r in surplus(found, desired, frozenset())]


def test_replicas_are_told_apart_by_fingerprint_and_profile() -> None:
    other = replica(CHAT, "other", "a", profile="gone")
    found = seen(replica(CHAT, "new", "a"), old("old"), other, old("leaving", "draining"))
    assert [[r.id for r in group] for group in (found.current, found.outdated, found.leaving)] == [
        ["new"], ["old", "other"], ["leaving"],
    ]  # fmt: skip


def test_one_replacement_is_due_at_a_time_and_none_while_one_leaves() -> None:
    assert wants_replacement(seen(old("a"), old("b")), 2)
    assert not wants_replacement(seen(old("a"), old("b"), replica(CHAT, "n", "a", "starting")), 2)
    assert not wants_replacement(seen(old("a"), replica(CHAT, "n", "a"), old("b", "draining")), 2)
    assert not wants_replacement(seen(replica(CHAT, "n", "a")), 1)


def test_an_old_one_serves_until_the_new_one_is_ready() -> None:
    assert gone(seen(old("a"), replica(CHAT, "n", "a", "starting")), 1) == []
    assert gone(seen(old("a"), replica(CHAT, "n", "a")), 1) == ["a"]
    assert gone(seen(old("a"), old("b"), replica(CHAT, "n", "a")), 2) == ["a"]
    assert gone(seen(old("a", "starting")), 1) == ["a"]
    assert sorted(gone(seen(old("a"), replica(CHAT, "n", "a")), 0)) == ["a", "n"]


def test_in_place_takes_one_of_several_at_once_and_the_only_one_after_ten_minutes() -> None:
    several, only = seen(old("a"), old("b")), seen(old("a"))
    assert in_place(several, 0.0, 0.0) is not None
    assert in_place(only, None, 0.0) is None
    assert in_place(only, 0.0, ROOM_WAIT_S - 1) is None
    removal = in_place(only, 0.0, ROOM_WAIT_S)
    assert removal is not None
    assert removal.is_drain()
