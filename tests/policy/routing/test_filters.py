"""Which replicas may be chosen at all."""

from llmgw.policy.routing.candidate import Candidate
from llmgw.policy.routing.filters import usable


def test_only_this_models_untried_and_undrained_replicas_stay():
    candidates = [
        Candidate("a", "m"),
        Candidate("b", "m", is_draining=True),
        Candidate("c", "other"),
        Candidate("d", "m", is_stale=True),
        Candidate("e", "m"),
    ]
    assert [candidate.id for candidate in usable(candidates, "m", {"e"})] == ["a", "d"]
