"""How busy a replica is."""

import pytest

from llmgw.policy.routing.candidate import Candidate
from llmgw.policy.routing.scorers import load


@pytest.mark.covers("S-42")
@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, 0.0),
        ({"inflight": 3}, 3.0),
        ({"running": 2.0, "waiting": 1.0}, 3.0),
        ({"running": 2.0}, 2.0),
        ({"running": 2.0, "waiting": 0.0, "inflight": 4, "inflight_at_scrape": 2}, 4.0),
        ({"running": 6.0, "waiting": 0.0, "inflight": 0, "inflight_at_scrape": 2}, 4.0),
        ({"running": 1.0, "waiting": 0.0, "inflight": 5, "inflight_at_scrape": 5}, 5.0),
        ({"engine": "trtllm", "running": 7.0, "waiting": 7.0, "inflight": 0}, 0.0),
        ({"engine": "trtllm", "running": 7.0, "waiting": 1.0, "inflight": 1, "inflight_at_scrape": 1}, 8.0),
    ],
)
def test_load_is_the_scrape_moved_by_our_own_requests(facts, expected):
    assert load(Candidate(id="a", model="m", **facts)) == expected
