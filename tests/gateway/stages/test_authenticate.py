"""Which key a request presents (T-12)."""

import pytest

from llmgw.gateway.refusals import Refusal
from llmgw.gateway.stages.authenticate import CONFLICT, MISSING, NOT_WHOLE, presented_key
from llmgw.net.http_message import Headers
from tests.gateway.rig import api_key

A, B = api_key("A"), api_key("B")


@pytest.mark.parametrize(
    "fields",
    [
        [("authorization", f"Bearer {A}")],
        [("authorization", f"BEARER   {A} ")],
        [("x-api-key", f" {A}")],
        [("x-api-key", A), ("authorization", f"Bearer {A}")],
        [("x-api-key", ""), ("authorization", f"Bearer {A}")],
        [("x-api-key", A), ("authorization", "Bearer")],
    ],
)
def test_one_key_is_found_in_either_place(fields):
    assert presented_key(Headers(fields)) == A


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([], MISSING),
        ([("authorization", "")], NOT_WHOLE),
        ([("authorization", "Bearer ")], MISSING),
        ([("authorization", f"Basic {A}")], NOT_WHOLE),
        ([("authorization", f"Bearer {A[:-1]}")], NOT_WHOLE),
        ([("x-api-key", A.replace("A", "B", 1))], NOT_WHOLE),
        ([("x-api-key", A), ("authorization", f"Bearer {B}")], CONFLICT),
        ([("authorization", f"Bearer {A}"), ("authorization", f"Bearer {B}")], CONFLICT),
    ],
)
def test_anything_else_is_401_in_the_words_for_it(fields, words):
    refusal = presented_key(Headers(fields))
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.message) == (401, words)
