"""The choice itself: best score, ties at random.

The random source is passed in, so that a choice is a function of its arguments. Without random ties every gateway
would send its first request after a scrape to the same replica.
"""

from collections.abc import Callable, Collection, Sequence

from llmgw.policy.routing.candidate import Candidate
from llmgw.policy.routing.filters import usable
from llmgw.policy.routing.scorers import order

RandomBelow = Callable[[int], int]
"""Takes n >= 1, returns an integer from 0 to n - 1."""


def choose(
    candidates: Sequence[Candidate], model: str, excluded: Collection[str], random_below: RandomBelow
) -> Candidate | None:
    """Return the least loaded usable replica of `model`, or None when there is none."""
    usable_now = usable(candidates, model, excluded)
    if not usable_now:
        return None
    ranked = [(order(candidate), candidate) for candidate in usable_now]
    best = min(key for key, _ in ranked)
    ties = [candidate for key, candidate in ranked if key == best]
    return ties[0] if len(ties) == 1 else ties[random_below(len(ties))]
