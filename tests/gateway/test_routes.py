"""The path table."""

import pytest

from llmgw.gateway.refusals import Refusal
from llmgw.gateway.routes import Kind, model_id, route


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/models/a", "a"),
        ("/v1/models/org/a", "org/a"),
        ("/v1/models/org%2Fa", "org/a"),
        ("/v1/models/a%20b", "a b"),
    ],
)
def test_model_ids_may_hold_slashes(path, expected):
    endpoint = route("GET", path)
    assert not isinstance(endpoint, Refusal)
    assert endpoint.kind is Kind.MODEL
    assert model_id(path) == expected


def test_a_refusal_does_not_repeat_a_path_without_end():
    refusal = route("GET", "/" + "x" * 10_000)
    assert isinstance(refusal, Refusal)
    assert len(refusal.message) < 300
