"""Requests through the whole gateway that end well, and what is known of them afterwards."""

import json

import pytest
import trio

from llmgw.testing.fake_engine import WORDS, byte_by_byte
from tests.gateway.rig import ENGINE_KEY, MESSAGES, api_key, events, played, words

TEXT = "".join(WORDS)


def test_an_unstreamed_answer_arrives_and_is_accounted_for():
    async def script(rig):
        rig.add_model()
        await rig.add_engine()
        await rig.settle()
        answer = await rig.chat()
        assert answer.status_code == 200
        assert answer.json()["choices"][0]["message"]["content"] == TEXT
        row = await rig.row()
        assert (row.status, row.outcome, row.prompt_tokens, row.completion_tokens) == (200, "ok", 5, 4)
        assert (row.endpoint, row.stream, row.model, row.served_model) == (
            "chat.completions",
            False,
            "tiny",
            "tiny",
        )
        assert row.replica_id == "tiny-0"
        assert row.request_id == answer.headers["x-request-id"]
        assert not row.tokens_estimated

    played(script)


@pytest.mark.covers("S-21")
def test_a_stream_arrives_whole_and_without_the_usage_nobody_asked_for():
    async def script(rig):
        rig.add_model()
        engine = await rig.add_engine()
        await rig.settle()
        answer = await rig.chat(stream=True)
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["x-accel-buffering"] == "no"
        assert words(answer.text) == TEXT
        assert events(answer.text)[-1] == "[DONE]"
        assert '"usage"' not in answer.text
        assert engine.received[0].json["stream_options"] == {"include_usage": True}
        row = await rig.row()
        assert (row.status, row.prompt_tokens, row.completion_tokens, row.stream) == (200, 5, 4, True)
        assert row.ttft_ms is not None

    played(script)


def test_the_usage_chunk_reaches_a_client_that_asked_for_it():
    async def script(rig):
        rig.add_model()
        await rig.add_engine()
        await rig.settle()
        answer = await rig.chat(stream=True, stream_options={"include_usage": True})
        assert json.loads(events(answer.text)[-2])["usage"]["completion_tokens"] == 4

    played(script)


def test_without_engine_usage_tokens_are_counted_from_deltas_and_marked():
    async def script(rig):
        rig.add_model()
        engine = await rig.add_engine()
        await rig.settle()
        await rig.chat(stream=True)
        assert "stream_options" not in engine.received[0].json
        row = await rig.row()
        assert (row.completion_tokens, row.tokens_estimated) == (4, True)
        assert row.prompt_tokens > 0

    played(script, inject_usage=False)


def test_text_written_a_byte_at_a_time_arrives_intact():
    spoken = ["漢字とかな交じり文。", "🧑‍🚀🏳️‍🌈", "é\u0301"] * 20

    async def script(rig):
        rig.add_model()
        await rig.add_engine(byte_by_byte(spoken))
        await rig.settle()
        answer = await rig.chat(stream=True)
        assert words(answer.text) == "".join(spoken)

    played(script)


def test_completions_and_embeddings_reach_their_own_paths():
    async def script(rig):
        rig.add_model()
        rig.add_model("vectors", capabilities=("embeddings",))
        chat = await rig.add_engine()
        vectors = await rig.add_engine(model="vectors")
        await rig.settle()
        answer = await rig.post({"model": "tiny", "prompt": "Once"}, "/v1/completions")
        assert answer.json()["choices"][0]["text"] == TEXT
        assert chat.received[0].path == "/v1/completions"
        answer = await rig.post({"model": "vectors", "input": "word"}, "/v1/embeddings")
        assert answer.json()["data"][0]["embedding"] == [0.5, -0.25]
        assert vectors.received[0].path == "/v1/embeddings"
        row = await rig.row(2)
        assert (row.endpoint, row.prompt_tokens, row.completion_tokens) == ("embeddings", 5, 0)

    played(script)


@pytest.mark.covers("S-42")
def test_only_our_key_and_the_trace_reach_an_engine():
    async def script(rig):
        rig.add_model()
        engine = await rig.add_engine()
        await rig.settle()
        sent = {
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "tracestate": "a=b",
            "cookie": "c=1",
            "x-session-id": "s1",
            "x-llmgw-tags": "team=a",
            "x-request-id": "mine",
            "anthropic-version": "2023-06-01",
        }
        await rig.client.post(
            "/v1/chat/completions",
            json={"model": "tiny", "messages": MESSAGES},
            headers={"x-api-key": rig.key, **sent},
        )
        got = engine.received[0].headers
        assert got["authorization"] == f"Bearer {ENGINE_KEY}"
        assert got["traceparent"] == sent["traceparent"]
        assert got["tracestate"] == "a=b"
        assert set(got) <= {
            "host", "accept-encoding", "content-length", "content-type", "accept", "authorization", "traceparent",
            "tracestate",
        }  # fmt: skip
        assert rig.key not in str(engine.received)

    played(script)


@pytest.mark.covers("S-21")
def test_what_llmgw_owns_is_recorded_and_not_sent_on():
    async def script(rig):
        rig.add_model()
        engine = await rig.add_engine()
        await rig.settle()
        await rig.chat(user="ann", metadata={"feature": "x"}, llmgw={"a": 1}, lora=[{"id": 0}], top_k=7)
        body = engine.received[0].json
        assert body["top_k"] == 7
        assert not {"user", "metadata", "llmgw", "lora"} & set(body)
        row = await rig.row()
        assert row.end_user == "ann"
        assert json.loads(row.tags) == {"feature": "x"}

    played(script)


@pytest.mark.covers("S-21")
def test_an_alias_and_an_adapter_are_names_of_their_model():
    async def script(rig):
        rig.add_model(aliases=("small",), adapters=("poet", "clerk"), adapter_scales=(1.0, 0.5))
        engine = await rig.add_engine(served_name="engine-name")
        await rig.settle()
        answer = await rig.chat("small", stream=True)
        assert {json.loads(event)["model"] for event in events(answer.text)[:-1]} == {"small"}
        assert engine.received[0].json["model"] == "engine-name"
        assert "lora" not in engine.received[0].json
        answer = await rig.chat("clerk")
        assert answer.json()["model"] == "clerk"
        assert engine.received[1].json["lora"] == [{"id": 1, "scale": 0.5}]
        row = await rig.row(2)
        assert (row.model, row.served_model) == ("clerk", "clerk")

    played(script)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_the_placeholder_is_answered_with_the_names_this_key_may_use(path, stream):
    async def script(rig):
        rig.add_model("open")
        rig.add_model("closed")
        rig.add_model("judge", role="guard")
        rig.key = api_key("B")
        rig.add_key(rig.key, models=("open",))
        await rig.settle()
        body = {"model": "<model-name>", "messages": MESSAGES, "prompt": "x", "stream": stream}
        answer = await rig.post(body, path)
        assert answer.status_code == 200
        assert "open" in answer.text
        assert "closed" not in answer.text
        assert "judge" not in answer.text
        assert answer.text.endswith("data: [DONE]\n\n") == stream

    played(script)


def test_the_placeholder_on_embeddings_is_a_model_that_is_not_served():
    async def script(rig):
        answer = await rig.post({"model": "<model-name>", "input": "x"}, "/v1/embeddings")
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "model_not_served"

    played(script)


def test_a_clients_request_id_is_kept_where_it_is_one_and_replaced_where_not():
    async def script(rig):
        rig.add_model()
        await rig.add_engine()
        await rig.settle()
        answer = await rig.post({"model": "tiny", "messages": MESSAGES}, **{"x-request-id": "My.id_1-2"})
        assert answer.headers["x-request-id"] == "My.id_1-2"
        for bad in ("x" * 129, "a b", "a/b", "é".encode("latin-1")):
            answer = await rig.client.get("/health", headers={"x-request-id": bad})
            assert answer.headers["x-request-id"] != bad
            assert len(answer.headers["x-request-id"]) == 26

    played(script)


def test_price_is_the_served_models_and_a_free_model_costs_nothing():
    async def script(rig):
        rig.add_model()
        rig.add_model("free")
        await rig.add_engine()
        await rig.add_engine(model="free")
        await rig.settle()
        await rig.chat()
        assert (await rig.row()).cost_micros == 5
        await rig.chat("free")
        assert (await rig.row(2)).cost_micros == 0

    prices = {"tiny": 100}
    played(script, prompt_price_micros=prices, completion_price_micros={"tiny": 1000})


def test_the_log_line_names_the_request_and_holds_no_text():
    async def script(rig):
        rig.add_model()
        await rig.add_engine()
        await rig.settle()
        await rig.post({"model": "tiny", "messages": [{"role": "user", "content": "canary-word"}]})
        await rig.row()
        (line,) = [line for line in rig.log.lines if line["message"] == "request"]
        assert (line["key_id"], line["model"], line["status"]) == ("key-A", "tiny", 200)
        assert "canary-word" not in str(rig.log.lines)
        assert TEXT not in str(rig.log.lines)
        assert rig.key not in str(rig.log.lines)

    played(script)


def test_metrics_count_the_request():
    async def script(rig):
        rig.add_model()
        await rig.add_engine()
        await rig.settle()
        await rig.chat(stream=True)
        await rig.chat("nobody")
        await rig.row(2)
        page = (await rig.metrics.render()).decode()
        assert 'llmgw_requests_total{band="silver",model="tiny",status="200"} 1.0' in page
        assert 'llmgw_requests_total{band="silver",model="",status="503"} 1.0' in page
        assert 'llmgw_tokens_total{direction="completion",model="tiny"} 4.0' in page
        assert "nobody" not in page

    played(script)


def test_a_gateway_without_keys_serves_anyone_and_writes_no_row():
    async def script(rig):
        rig.add_model()
        await rig.add_engine()
        await rig.settle()
        answer = await rig.client.post(
            "/v1/chat/completions",
            json={"model": "tiny", "messages": MESSAGES},
            headers={"x-llmgw-band": "gold"},
        )
        assert answer.status_code == 200
        page = (await rig.metrics.render()).decode()
        assert 'llmgw_requests_total{band="gold",model="tiny",status="200"} 1.0' in page
        await trio.sleep(0.3)
        assert rig.usage.rows == []

    played(script, keys_required=False)


def test_band_and_profile_headers_change_nothing_on_a_keyed_gateway():
    async def script(rig):
        rig.add_model()
        await rig.add_engine()
        await rig.settle()
        body = {"model": "tiny", "messages": MESSAGES}
        answer = await rig.post(body, **{"x-llmgw-band": "gold", "x-llmgw-profile": "debug"})
        assert answer.status_code == 200
        assert "x-llmgw-replica" not in answer.headers
        assert (await rig.row()).band == "silver"
        assert 'band="gold"' not in (await rig.metrics.render()).decode()

    played(script)


def test_an_assistant_message_without_content_is_accepted():
    async def script(rig):
        rig.add_model()
        engine = await rig.add_engine()
        await rig.settle()
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        for empty in ({"content": None}, {}):
            turns = [*MESSAGES, {"role": "assistant", "tool_calls": [call], **empty}]
            answer = await rig.post({"model": "tiny", "messages": turns})
            assert answer.status_code == 200
            assert engine.received[-1].json["messages"] == turns

    played(script)
