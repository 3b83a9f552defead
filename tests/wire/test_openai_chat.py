import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.wire.canonical import BadRequest, Call, Operation, Usage
from llmgw.wire.openai_chat import (
    NotAnAnswer,
    error_message,
    estimate_prompt_tokens,
    parse,
    read_answer,
    upstream_body,
)

MESSAGES = b'"messages":[{"role":"user","content":"hi"}]'


def chat(extra: bytes = b"") -> Call:
    return parse(Operation.CHAT, b'{"model":"m",' + MESSAGES + extra + b"}")


@pytest.mark.covers("S-21")
def test_members_llmgw_owns_do_not_reach_the_engine() -> None:
    call = chat(b',"user":"u1","metadata":{"team":"a","n":1},"lora":[{"id":0,"scale":9}],"llmgw":1,"llmgw.x":2,"seed":7')
    assert json.loads(upstream_body(call, "served", inject_usage=True)) == {
        "model": "served",
        "messages": [{"role": "user", "content": "hi"}],
        "seed": 7,
    }
    assert (call.end_user, call.tags) == ("u1", {"team": "a"})


@pytest.mark.covers("S-21")
def test_members_nobody_knows_reach_the_engine_as_they_were_written() -> None:
    odd = b',"x":{"a" : 1.50,"b":[1e2, "\\u00e9\\/"],"c":12345678901234567890}'
    body = upstream_body(chat(odd), "m", inject_usage=True)
    assert b'{"a" : 1.50,"b":[1e2, "\\u00e9\\/"],"c":12345678901234567890}' in body


def test_a_member_written_twice_reaches_the_engine_once_and_as_it_was_read() -> None:
    call = parse(Operation.CHAT, b'{"model":"cheap","model":"dear",' + MESSAGES + b"}")
    assert call.model == "dear"
    assert upstream_body(call, "dear", inject_usage=False).count(b'"model"') == 1


@pytest.mark.parametrize(
    ("options", "wants", "expected"),
    [
        (b"", False, {"include_usage": True}),
        (b',"stream_options":null', False, {"include_usage": True}),
        (b',"stream_options":{"include_usage":false,"x":1}', False, {"include_usage": True, "x": 1}),
        (b',"stream_options":{"include_usage":true}', True, {"include_usage": True}),
    ],
)
def test_usage_is_asked_of_the_engine_on_streams(options: bytes, wants: bool, expected: dict[str, Any]) -> None:
    call = chat(b',"stream":true' + options)
    assert call.wants_usage is wants
    assert json.loads(upstream_body(call, "m", inject_usage=True))["stream_options"] == expected


def test_usage_is_not_asked_of_an_unstreamed_request_nor_when_switched_off() -> None:
    assert b"stream_options" not in upstream_body(chat(), "m", inject_usage=True)
    assert b"stream_options" not in upstream_body(chat(b',"stream":true'), "m", inject_usage=False)


def test_an_adapter_is_set_by_us_alone() -> None:
    body = upstream_body(chat(b',"lora":[{"id":3,"scale":1}]'), "m", inject_usage=True, lora=[(0, 0.5)])
    assert json.loads(body)["lora"] == [{"id": 0, "scale": 0.5}]


def test_a_message_without_content_is_accepted() -> None:
    for content in (b'"content":null,', b""):
        call = parse(
            Operation.CHAT,
            b'{"model":"m","messages":[{"role":"assistant",' + content + b'"tool_calls":[]}]}',
        )
        assert content in upstream_body(call, "m", inject_usage=True)


@pytest.mark.parametrize(
    ("operation", "body", "says", "param"),
    [
        (Operation.CHAT, b"", "not JSON", None),
        (Operation.CHAT, b'{"model":"m",', "byte 13", None),
        (Operation.CHAT, b'{"model":"m" "x"}', "byte 13", None),
        (Operation.CHAT, b'{"model":"m\xff"}', "not UTF-8: see byte 11", None),
        (Operation.CHAT, b"[1]", "JSON object", None),
        (Operation.CHAT, b"null", "JSON object", None),
        (Operation.CHAT, b"[" * 200, "deeper than 128", None),
        (Operation.CHAT, b'{"model":"m","x":' + b'{"a":' * 128 + b"1" + b"}" * 129, "deeper than 128", None),
        (Operation.CHAT, b'{"messages":[]}', "`model` is missing", "model"),
        (Operation.CHAT, b'{"model":"","messages":[]}', "`model` is missing", "model"),
        (Operation.CHAT, b'{"model":7,"messages":[]}', "`model` must be text", "model"),
        (Operation.CHAT, b'{"model":"m"}', "`messages` is missing", "messages"),
        (Operation.CHAT, b'{"model":"m","messages":"hi"}', "must be a list", "messages"),
        (Operation.CHAT, b'{"model":"m","messages":[],"stream":"yes"}', "`stream` must be true or false", "stream"),
        (Operation.CHAT, b'{"model":"m","messages":[],"stream_options":1}', "must be an object", "stream_options"),
        (Operation.CHAT, b'{"model":"m","messages":[],"max_tokens":-1}', "must not be negative", "max_tokens"),
        (Operation.CHAT, b'{"model":"m","messages":[],"max_tokens":"1"}', "a whole number", "max_tokens"),
        (Operation.CHAT, b'{"model":"m","messages":[],"user":{}}', "`user` must be text", "user"),
        (Operation.COMPLETIONS, b'{"model":"m"}', "`prompt` is missing", "prompt"),
        (Operation.EMBEDDINGS, b'{"model":"m","input":null}', "`input` is missing", "input"),
    ],
)
def test_a_bad_body_is_refused_in_words(operation: Operation, body: bytes, says: str, param: str | None) -> None:
    with pytest.raises(BadRequest) as refused:
        parse(operation, body)
    assert says in refused.value.message
    assert refused.value.param == param


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(body: bytes) -> None:
    for text in (body, b'{"model":"m","messages":[],"x":' + body + b"}"):
        try:
            parse(Operation.CHAT, text)
        except BadRequest:
            pass


@pytest.mark.parametrize(
    ("extra", "cap"),
    [
        (b"", 0),
        (b',"max_tokens":5', 5),
        (b',"max_tokens":5,"max_completion_tokens":7', 7),
        (b',"max_tokens":null,"max_completion_tokens":null', 0),
    ],
)
def test_the_cap_of_output_is_read(extra: bytes, cap: int) -> None:
    assert chat(extra).output_cap == cap


def test_a_prompt_is_estimated_at_four_bytes_a_token() -> None:
    call = parse(Operation.COMPLETIONS, b'{"model":"m","prompt":"' + b"x" * 398 + b'"}')
    assert estimate_prompt_tokens(call) == 100


def test_an_answer_shows_the_name_that_was_asked_for_and_its_usage() -> None:
    engine = b'{"id":"c-1","model":"/path/x.gguf","choices":[{"a":1.0}],"usage":{"prompt_tokens":3,"completion_tokens":4}}'
    answer = read_answer(chat(), "m", engine)
    assert answer.body == engine.replace(b"/path/x.gguf", b"m")
    assert answer.usage == Usage(3, 4)


def test_an_answer_without_usage_is_estimated() -> None:
    assert read_answer(chat(), "m", b'{"choices":[{"message":{"content":"hello"}}]}').usage.is_estimated


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"choices":{}}', b'{"choices":[],"usage":3}', b"[" * 9000])
def test_what_is_no_answer_is_called_so(body: bytes) -> None:
    with pytest.raises(NotAnAnswer):
        read_answer(chat(), "m", body)


def embeddings(extra: bytes) -> Call:
    return parse(Operation.EMBEDDINGS, b'{"model":"m","input":"x"' + extra + b"}")


@pytest.mark.covers("S-23")
def test_vectors_are_put_into_base64_when_the_engine_gave_floats() -> None:
    engine = b'{"data":[{"index":0,"embedding":[0.5,-2.0]}],"usage":{"prompt_tokens":2,"total_tokens":2}}'
    answer = read_answer(embeddings(b',"encoding_format":"base64"'), "m", engine)
    data = json.loads(answer.body)["data"]
    assert struct.unpack("<2f", base64.b64decode(data[0]["embedding"])) == (0.5, -2.0)
    assert data[0]["index"] == 0
    assert answer.usage == Usage(2, 0)


def test_vectors_stay_as_the_engine_wrote_them_otherwise() -> None:
    floats = b'[{"embedding":[0.5, -2.0]}]'
    assert floats in read_answer(embeddings(b""), "m", b'{"data":' + floats + b"}").body
    text = b'[{"embedding":"AAAAPw=="}]'
    assert text in read_answer(embeddings(b',"encoding_format":"base64"'), "m", b'{"data":' + text + b"}").body
    with pytest.raises(NotAnAnswer):
        read_answer(embeddings(b',"encoding_format":"base64"'), "m", b'{"data":[{}]}')


def test_an_engine_that_gives_only_a_total_is_counted() -> None:
    answer = read_answer(embeddings(b""), "m", b'{"data":[],"usage":{"total_tokens":9}}')
    assert answer.usage == Usage(9, 0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"bad temperature","type":"x","code":400}}', "bad temperature"),
        (b'{"error":"Unauthorized"}', "Unauthorized"),
        (b'{"object":"error","message":"too long","code":400}', "too long"),
        (b'{"detail":[{"loc":["body"],"msg":"field required"}]}', "field required"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b"Internal Server Error", None),
        (b'{"error":null}', None),
        (b"[]", None),
    ],
)
def test_the_message_of_an_engines_error_is_found(body: bytes, message: str | None) -> None:
    assert error_message(body) == message
