"""How busy a replica is, as one number that can be compared between replicas of a model.

The naive way is to trust the scrape. Between two scrapes (2 s) a gateway can send hundreds of requests, and all of
them would go to the replica that looked idle. So the scraped figure is moved by what this gateway has sent or
finished since; and it is never below the gateway's own count, which is exact where only one gateway runs.
"""

from llmgw.policy.routing.candidate import Candidate

FROZEN_WHEN_IDLE = frozenset({"trtllm"})
"""Engines whose gauges keep their last value when nothing runs (S-42): our own zero is believed instead."""


def load(candidate: Candidate) -> float:
    """Return the requests running or waiting at a replica, as well as they can be known. Unit: requests."""
    if candidate.running is None and candidate.waiting is None:
        return float(candidate.inflight)
    if candidate.inflight == 0 and candidate.engine in FROZEN_WHEN_IDLE:
        return 0.0
    scraped = (candidate.running or 0.0) + (candidate.waiting or 0.0)
    moved = candidate.inflight - candidate.inflight_at_scrape
    return max(float(candidate.inflight), scraped + moved)


def order(candidate: Candidate) -> tuple[bool, float, float]:
    """Return the sort key of a replica: fresh before stale, less loaded first, then the one with more free KV cache.

    An unknown KV use counts as half full, so that it neither wins nor loses against known ones by being unknown.
    KV use is compared in tenths: a finer difference is noise, and would undo the random choice among equals.
    """
    kv_use = 0.5 if candidate.kv_use is None else candidate.kv_use
    return candidate.is_stale, load(candidate), round(kv_use, 1)
