"""What the simulated engine reads and says, without a socket."""

from __future__ import annotations

import json

import pytest

from llmgw.testing.sim_answers import BadRequest, embeddings, events, read_question, tokenized


def test_the_last_user_message_is_answered_whatever_form_its_content_has() -> None:
    messages = [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": [{"type": "text", "text": "one two"}, {"type": "image_url"}]},
        {"role": "assistant", "content": None},
    ]
    question = read_question("chat", json.dumps({"messages": messages, "stream": True}).encode(), "m")
    assert question.argument == "one two" and question.prompt_tokens == 4 and question.finish_reason == "stop"
    assert [is_token for _, is_token in events(question)] == [False, *[True] * 5, False, False]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"messages": []}', b'{"model": "x"}'])
def test_what_cannot_be_answered_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequest):
        read_question("chat", body, "m")


def test_vectors_have_the_size_asked_for_and_length_one() -> None:
    answer = embeddings(b'{"input": ["a", "b"], "dimensions": 8}', "m")
    for row in answer["data"]:
        assert len(row["embedding"]) == 8 and abs(sum(x * x for x in row["embedding"]) - 1) < 1e-3
    assert tokenized(b'{"messages": [{"role": "user", "content": "a b"}]}')["count"] == 2
