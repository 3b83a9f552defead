import json
from typing import Any

import pytest

from llmgw.wire.canonical import Call, Operation, Usage
from llmgw.wire.openai_chat import NotAnAnswer, parse
from llmgw.wire.openai_stream import EngineSaid, StreamReader
from llmgw.wire.sse import SSEParser

DONE = b"data: [DONE]\n\n"
USAGE = b'data: {"id":"c-1","model":"m","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}\n\n'


def call(wants_usage: bool = False) -> Call:
    options = b',"stream_options":{"include_usage":true}' if wants_usage else b""
    return parse(Operation.CHAT, b'{"model":"m","messages":[1,2,3],"stream":true' + options + b"}")


def delta(content: str, model: str = "m") -> bytes:
    chunk = {"id": "c-1", "model": model, "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}]}
    return b"data: " + json.dumps(chunk, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def relay(stream: bytes, reader: StreamReader | None = None, size: int = 10_000_000) -> bytes:
    reader = reader or StreamReader(call(), "m")
    parser = SSEParser()
    out = b""
    for at in range(0, len(stream), size):
        out += b"".join(map(reader.feed, parser.feed(stream[at : at + size])))
    return out


def test_text_cut_anywhere_arrives_as_the_bytes_the_engine_wrote() -> None:
    stream = delta("漢字と絵文字 👩‍👩‍👧‍👦🏳️‍🌈") + delta("한국어 ✊🏿") + DONE
    assert relay(stream, size=1) == stream
    for at in range(len(stream)):
        reader, parser = StreamReader(call(), "m"), SSEParser()
        out = [reader.feed(event) for part in (stream[:at], stream[at:]) for event in parser.feed(part)]
        assert b"".join(out) == stream


def test_a_name_that_differs_is_replaced_and_nothing_else() -> None:
    stream = delta('say "model":"/srv/x.gguf" twice', "/srv/x.gguf") + delta("b", "/srv/x.gguf") + DONE
    assert relay(stream) == delta('say "model":"/srv/x.gguf" twice') + delta("b") + DONE


def test_a_name_is_replaced_at_the_top_even_where_an_inner_object_has_one() -> None:
    event = b'data: {"choices":[{"delta":{"content":"a"},"x":{"model":"inner"}}],"model":"outer"}\n\n'
    assert json.loads(relay(event)[6:]) == {
        "choices": [{"delta": {"content": "a"}, "x": {"model": "inner"}}],
        "model": "m",
    }


@pytest.mark.parametrize("spelling", [b'"model" : "x"', b'"model":"x"', b'"model":"\\u0078"', b'"mod\\u0065l":"x"'])
def test_a_name_is_found_however_it_is_spelt(spelling: bytes) -> None:
    event = b'data: {"choices":[{"delta":{}}],' + spelling + b"}\n\n"
    assert json.loads(relay(event)[6:])["model"] == "m"


def test_a_name_in_an_event_of_several_lines_is_replaced() -> None:
    event = b'event: x\ndata: {"model":"x","choices":[\ndata: {"delta":{"model":"y"}}]}\n\n'
    (read,) = SSEParser().feed(relay(event))
    assert json.loads(read.data) == {"model": "m", "choices": [{"delta": {"model": "y"}}]}
    assert read.event == "x"


def test_a_null_name_and_none_stay() -> None:
    stream = b'data: {"model":null,"choices":[]}\n\ndata: {"choices":[]}\n\n'
    assert relay(stream) == stream


def test_the_usage_chunk_reaches_only_a_client_that_asked() -> None:
    stream = delta("a") + USAGE + DONE
    reader = StreamReader(call(), "m")
    assert relay(stream, reader) == delta("a") + DONE
    assert reader.usage() == Usage(5, 2)
    reader = StreamReader(call(wants_usage=True), "m")
    assert relay(stream, reader) == stream
    assert reader.usage() == Usage(5, 2)


def test_usage_on_the_last_chunk_of_text_is_read_and_passed() -> None:
    event = b'data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}\n\n'
    reader = StreamReader(call(), "m")
    assert relay(event, reader) == event
    assert reader.usage() == Usage(5, 1)


def test_without_usage_deltas_are_counted_and_marked_estimated() -> None:
    reader = StreamReader(call(), "m")
    role = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
    thought = b'data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}\n\n'
    end = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}\n\n'
    assert relay(role, reader) == role
    assert not reader.has_output
    assert relay(thought + delta("a") + end + DONE, reader) == thought + delta("a") + end + DONE
    assert reader.usage() == Usage(1, 2, is_estimated=True)


def test_completions_are_counted_by_their_text() -> None:
    reader = StreamReader(parse(Operation.COMPLETIONS, b'{"model":"m","prompt":"x","stream":true}'), "m")
    stream = b'data: {"choices":[{"text":"a"}]}\n\ndata: {"choices":[{"text":""}]}\n\n'
    assert relay(stream, reader) == stream
    assert reader.usage().completion_tokens == 1


def test_only_done_makes_an_answer_whole_and_nothing_follows_it() -> None:
    reader = StreamReader(call(), "m")
    relay(delta("a"), reader)
    assert not reader.is_done
    assert relay(DONE + delta("late") + DONE, reader) == DONE
    assert reader.is_done


def test_comments_of_the_engine_are_not_passed_on() -> None:
    assert relay(b": ping\n\n" + delta("a")) == delta("a")


@pytest.mark.parametrize(
    ("event", "message", "status"),
    [
        (b'data: {"error":{"message":"out of memory","code":500}}\n\n', "out of memory", 500),
        (b'data: {"error":"out of memory"}\n\n', "out of memory", None),
        (b'data: {"object":"error","message":"bad","code":400,"error":{}}\n\n', "bad", None),
        (b'event: error\ndata: {"message":"bad","code":400}\n\n', "bad", 400),
        (b"event: error\ndata: gone\n\n", "the engine reported an error", None),
        (b'event: error\ndata: {"choices":[]}\n\n', "the engine reported an error", None),
    ],
)
def test_an_error_event_is_no_answer(event: bytes, message: str, status: int | None) -> None:
    with pytest.raises(EngineSaid) as said:
        relay(delta("a") + event)
    assert (said.value.message, said.value.status) == (message, status)


@pytest.mark.parametrize(
    "data", [b"garbage", b"{}", b"[]", b'{"choices":7}', b'{"x":1}', b'{"choices":[{"delta":7}]}', b"[" * 5000]
)
def test_garbage_is_no_answer(data: bytes) -> None:
    with pytest.raises(NotAnAnswer):
        relay(b"data: " + data + b"\n\n")


def tool(*calls: dict[str, Any], choice: int = 0) -> bytes:
    chunk = {"id": "c-1", "model": "m", "choices": [{"index": choice, "delta": {"tool_calls": list(calls)}}]}
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def test_tool_calls_that_are_right_pass_byte_for_byte() -> None:
    stream = (
        tool({"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}})
        + tool({"index": 0, "function": {"arguments": '{"x":1}'}})
        + tool({"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}})
    )
    assert relay(stream) == stream


def test_tool_calls_are_put_right_beside_a_name_that_differs() -> None:
    event = tool({"index": 1, "id": "a", "function": {"name": "f", "arguments": "{}"}}).replace(b'"m"', b'"served"')
    chunk = json.loads(relay(event)[6:])
    assert chunk["model"] == "m"
    assert chunk["choices"][0]["delta"]["tool_calls"][0]["index"] == 0


def test_each_choice_numbers_its_own_tool_calls() -> None:
    one = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    stream = tool(one) + tool({**one, "id": "b"}, choice=1)
    assert relay(stream) == stream
