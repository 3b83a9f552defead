from __future__ import annotations

import pytest

from llmgw.policy.candidates import Rejection
from llmgw.policy.placement import NoRoom
from llmgw.policy.reconcile import Note
from llmgw.policy.snapshot import Failures
from llmgw.policy.status import status

NO_ROOM = NoRoom("m", (Rejection("cpu", "a", "cordoned"),), {"cpu": "busy"})


@pytest.mark.parametrize(
    ("note", "failures", "ready", "starting", "word"),
    [
        (Note(desired=0, most=0), Failures(), 0, 0, "stopped"),
        (Note(desired=0, most=1), Failures(), 0, 0, "on demand"),
        (Note(desired=1, most=1), Failures(), 1, 0, "serving"),
        (Note(desired=1, most=1), Failures(), 0, 1, "starting"),
        (Note(desired=1, most=1), Failures(count=1, error="x", retry_s=9), 0, 0, "starting"),
        (Note(desired=1, most=1, no_room=NO_ROOM), Failures(), 0, 0, "waiting for room"),
        (Note(desired=2, most=2, no_room=NO_ROOM), Failures(), 1, 0, "short"),
        (Note(desired=2, most=2), Failures(count=5, is_parked=True, error="x"), 1, 0, "parked"),
    ],
)
def test_a_model_stands_as_one_word(note: Note, failures: Failures, ready: int, starting: int, word: str) -> None:
    assert status(note, failures, ready=ready, starting=starting, now_s=0.0).word == word


def test_the_reason_names_the_node_or_the_last_failure() -> None:
    waiting = status(Note(desired=1, most=1, no_room=NO_ROOM), Failures(), ready=0, starting=0, now_s=0.0)
    assert (waiting.reason, waiting.is_unplaceable) == ("profile cpu on a: cordoned", True)
    failed = Failures(count=2, error="it exits 1", retry_s=12.0)
    retrying = status(Note(desired=1, most=1), failed, ready=0, starting=0, now_s=2.0)
    assert retrying.reason == "failed 2 times, last: it exits 1; next try in 10 s"
