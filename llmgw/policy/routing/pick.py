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
    best: tuple[bool, float, float] | None = None
    ties: list[Candidate] = []
    for candidate in usable(candidates, model, excluded):
        key = order(candidate)
        if best is None or key < best:
            best, ties = key, [candidate]
        elif key == best:
            ties.append(candidate)
    if len(ties) < 2:
        return ties[0] if ties else None
    return ties[random_below(len(ties))]
