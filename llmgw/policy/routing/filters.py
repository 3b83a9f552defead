"""Which replicas a request may go to at all.

A filter only removes. Staleness is no filter on purpose: three failed scrapes may mean a broken metrics page on a
replica that answers well, so a stale replica is scored last and used when nothing better is left (S-42).
"""

from collections.abc import Collection, Sequence

from llmgw.policy.routing.candidate import Candidate


def usable(candidates: Sequence[Candidate], model: str, excluded: Collection[str]) -> list[Candidate]:
    """Return the candidates of `model` that take new requests and were not already tried by this one."""
    return [
        candidate
        for candidate in candidates
        if candidate.model == model and not candidate.is_draining and candidate.id not in excluded
    ]
