"""Engines that fail, at every moment at which they can, and what the client and the usage row are told."""

import json
import socket

import pytest
import trio

from llmgw.testing import fake_engine as acts
from tests.gateway.rig import MESSAGES, events, played, words

FAILS_BEFORE = {
    "dies before its first byte": acts.dies_before_its_first_byte,
    "dies in its head": acts.dies_in_its_head,
    "answers 500": acts.says(500, "oops"),
    "answers 503": acts.says(503, "Loading model"),
    "does not know our key": acts.says(401, "Invalid API Key"),
}
FAILS_A_STREAM_BEFORE = {
    **FAILS_BEFORE,
    "dies after its head": acts.dies_after_its_head,
    "answers html": acts.sends(b"<html>", "text/html"),
    "streams garbage": acts.streams_garbage,
    "reports an error at once": acts.streams_an_error(500, "oom", 0),
}
FAILS_A_WHOLE_ANSWER = {
    **FAILS_BEFORE,
    "answers html": acts.sends(b"<html>", "text/html"),
    "answers json without choices": acts.sends(b"{}"),
    "dies within the answer": acts.dies_within_a_whole_answer,
}
FAILS_AFTER = {
    "dies": acts.dies_after(3),
    "closes without [DONE]": acts.closes_without_done,
    "floods": acts.floods_one_event,
    "reports an error": acts.streams_an_error(500, "CUDA died at /opt/models/x.gguf", 2),
    "reports a client's error too late": acts.streams_an_error(400, "too long", 2),
}
TEXT = "".join(acts.WORDS)
both = pytest.mark.parametrize("stream", [False, True])


def cases(table):
    return pytest.mark.parametrize("act", table.values(), ids=table.keys())


async def two_replicas(rig, act):
    """Two replicas, of which the first is preferred: the second seems busy.

    The first always acts as told: a request that finds a kept connection dead is sent there once more.
    """
    rig.add_model()
    broken = await rig.add_engine()
    broken.usual = act
    good = await rig.add_engine()
    good.metrics = b"llamacpp:requests_processing 5\nllamacpp:requests_deferred 0\n"
    await rig.settle()
    await rig.gateway._scraper.scrape_all(5.0)
    return broken, good


@cases(FAILS_A_STREAM_BEFORE)
def test_a_stream_that_fails_before_its_first_byte_is_tried_elsewhere(act):
    async def script(rig):
        broken, good = await two_replicas(rig, act)
        answer = await rig.chat(stream=True)
        assert words(answer.text) == TEXT
        assert broken.received
        assert len(good.received) == 1
        row = await rig.row()
        assert (row.status, row.replica_id, row.completion_tokens) == (200, "tiny-1", 4)
        assert "llmgw_retries_total" in (await rig.metrics.render()).decode()

    played(script)


@cases(FAILS_A_WHOLE_ANSWER)
def test_a_whole_answer_that_fails_is_tried_elsewhere(act):
    async def script(rig):
        broken, good = await two_replicas(rig, act)
        answer = await rig.chat()
        assert answer.json()["choices"][0]["message"]["content"] == TEXT
        assert broken.received
        assert len(good.received) == 1

    played(script)


@both
def test_a_replica_that_does_not_listen_is_passed_over_and_reported(stream):
    async def script(rig):
        rig.add_model()
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        dead_port = listeners[0].socket.getsockname()[1]
        listeners[0].socket.close()
        rig.add_route(dead_port)
        good = await rig.add_engine()
        good.metrics = b"llamacpp:requests_processing 5\n"
        await rig.settle()
        await rig.gateway._scraper.scrape_all(5.0)
        answer = await rig.chat(stream=stream)
        assert answer.status_code == 200
        await rig.row()
        assert any(report.failed == {"tiny-0": 1} for report in rig.fleet.reports)

    played(script)


@both
def test_after_three_tries_the_answer_is_502(stream):
    async def script(rig):
        rig.add_model()
        engines = [await rig.add_engine() for _ in range(4)]
        for engine in engines:
            engine.usual = acts.dies_before_its_first_byte
        await rig.settle()
        answer = await rig.chat(stream=stream)
        assert answer.status_code == 502
        assert answer.json()["error"]["code"] == "upstream_error"
        assert answer.json()["error"]["type"] == "api_error"
        assert sum(bool(engine.received) for engine in engines) == 3
        row = await rig.row()
        assert (row.status, row.outcome, row.cost_micros) == (502, "error", 0)

    played(script)


@cases(FAILS_AFTER)
def test_a_stream_that_fails_after_it_began_ends_in_an_error_and_never_as_success(act):
    async def script(rig):
        broken, good = await two_replicas(rig, act)
        answer = await rig.chat(stream=True)
        assert answer.status_code == 200
        assert words(answer.text).startswith("word ")
        *_, error, done = events(answer.text)
        assert done == "[DONE]"
        assert json.loads(error)["error"]["type"] == "api_error"
        assert json.loads(error)["error"]["code"] == "upstream_error"
        assert "/opt" not in error
        assert good.received == []
        row = await rig.row()
        assert (row.status, row.outcome) == (502, "error")
        assert row.completion_tokens >= 1
        await broken.until(lambda: broken.running == 0)

    played(script)


@pytest.mark.covers("S-11")
@both
def test_an_engine_that_says_nothing_is_504_and_hung_up_on(stream):
    async def script(rig):
        broken, good = await two_replicas(rig, acts.hangs)
        answer = await rig.chat(stream=stream)
        assert answer.status_code == 504
        assert answer.json()["error"]["code"] == "timeout"
        await broken.until(lambda: broken.running == 0)
        assert good.received == []
        assert (await rig.row()).status == 504

    played(script, first_byte_s=0.3)


@pytest.mark.covers("S-11")
@pytest.mark.parametrize("settings", [{"idle_s": 0.3}, {"total_s": 0.5}], ids=["gap", "total"])
def test_a_stream_that_falls_silent_ends_in_a_timeout_error(settings):
    async def script(rig):
        broken, _ = await two_replicas(rig, acts.hangs_after(2))
        answer = await rig.chat(stream=True)
        *_, error, done = events(answer.text)
        assert done == "[DONE]"
        assert json.loads(error)["error"]["code"] == "timeout"
        await broken.until(lambda: broken.running == 0)
        assert (await rig.row()).status == 504

    played(script, **settings)


@pytest.mark.covers("S-11")
def test_the_total_deadline_holds_before_the_first_byte_too():
    async def script(rig):
        broken, _ = await two_replicas(rig, acts.hangs)
        answer = await rig.chat()
        assert answer.status_code == 504
        await broken.until(lambda: broken.running == 0)

    played(script, total_s=0.3)


@both
@pytest.mark.parametrize("status", [400, 404, 413, 422, 429])
def test_what_an_engine_refuses_is_passed_on_in_our_shape_and_scrubbed(status, stream):
    async def script(rig):
        message = "bad temperature; see /srv/models/a.gguf at 10.1.2.3:8000 or http://engine:1/x"
        _, good = await two_replicas(rig, acts.says(status, message))
        answer = await rig.chat(stream=stream)
        assert answer.status_code == status
        error = answer.json()["error"]
        assert error["message"].startswith("bad temperature; see")
        assert not [secret for secret in ("/srv", "10.1.2.3", "engine:1") if secret in answer.text]
        assert set(error) == {"message", "type", "param", "code"}
        assert good.received == []
        assert (await rig.row()).status == status

    played(script)


def test_a_prompt_too_long_for_the_engine_has_its_own_code():
    async def script(rig):
        body = {"error": {"code": 400, "message": "the request exceeds", "type": "exceed_context_size_error"}}

        async def act(stage):
            await stage.whole(400, json.dumps(body).encode())

        await two_replicas(rig, act)
        answer = await rig.chat()
        assert answer.json()["error"]["code"] == "context_length_exceeded"

    played(script)


LLAMA_CPP_SAYS = {
    "[json.exception.out_of_range.406] number overflow parsing '1e999'": None,
    'Failed to parse tools: Expected \'tools\' to be an array, got "x"; tools = "x"': None,
    "Failed to parse messages: Missing tool call type: 5": None,
    "Unknown reasoning format: zz": None,
    "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj": (
        "unsupported_capability"
    ),
}


@pytest.mark.parametrize(("message", "code"), LLAMA_CPP_SAYS.items())
def test_what_llama_cpp_calls_its_fault_and_is_the_requests_is_not_tried_elsewhere(message: str, code: str | None):
    """Three replicas were asked one after the other, and the client read that the engines were broken."""

    async def script(rig):
        body = {"error": {"code": 500, "message": message, "type": "server_error"}}

        async def act(stage):
            await stage.whole(500, json.dumps(body, separators=(",", ":")).encode())

        _, good = await two_replicas(rig, act)
        answer = await rig.chat()
        assert answer.status_code == 400
        assert answer.json()["error"]["message"] == message
        assert answer.json()["error"]["code"] == code
        assert good.received == []

    played(script)


@pytest.mark.covers("F-25")
def test_one_hung_engine_holds_up_nobody_else():
    async def script(rig):
        rig.add_model()
        rig.add_model("other")
        hung = await rig.add_engine()
        hung.usual = acts.hangs
        hung.metrics = b""
        await rig.add_engine(model="other")
        await rig.settle()
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(rig.chat)
            await hung.until(lambda: hung.running == 20)
            for _ in range(5):
                assert (await rig.chat("other", stream=True)).status_code == 200
            await hung.until(lambda: hung.running == 0)
        rows = rig.usage.rows
        while len(rows) < 25:
            await trio.sleep(0.01)
        assert sorted(row.status for row in rows) == [200] * 5 + [504] * 20

    played(script, first_byte_s=2.0)


def test_a_broken_engines_neighbours_stream_on():
    async def script(rig):
        rig.add_model()
        rig.add_model("other")
        first_arrived = trio.Event()
        await rig.add_engine(acts.breaks_its_chunks(first_arrived))
        steps = [trio.Event() for _ in range(4)]

        async def paced(stage):
            await stage.head()
            for step in steps:
                await step.wait()
                await stage.event(acts.delta("x"))
            await stage.chunk(b"data: [DONE]\n\n")
            await stage.end()

        neighbour = await rig.add_engine(paced, model="other")
        await rig.settle()
        got = []

        async def stream_on():
            got.append(await rig.chat("other", stream=True))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stream_on)
            await neighbour.until(lambda: neighbour.running == 1)
            steps[0].set()
            async with rig.streaming() as broken:
                lines = broken.aiter_lines()
                assert "word " in await anext(lines)
                first_arrived.set()
                rest = [line async for line in lines if line]
            assert "upstream_error" in rest[0]
            assert rest[1] == "data: [DONE]"
            for step in steps[1:]:
                step.set()
        assert words(got[0].text) == "xxxx"

    played(script)


def test_a_finished_streams_connection_is_used_again():
    async def script(rig):
        rig.add_model()
        engine = await rig.add_engine()
        engine.metrics = b""
        await rig.settle()
        for _ in range(5):
            await rig.chat(stream=True)
        assert engine.connections <= 2

    played(script)


def test_an_answer_without_end_is_bounded():
    async def script(rig):
        rig.gateway._dispatch._relay._largest_answer_bytes = 100_000

        async def floods(stage):
            await stage.head(content_type="application/json")
            while True:
                await stage.chunk(b"x" * 65_536)

        rig.add_model()
        engine = await rig.add_engine(floods)
        await rig.settle()
        answer = await rig.post({"model": "tiny", "messages": MESSAGES})
        assert answer.status_code == 502
        await engine.until(lambda: engine.running == 0)

    played(script)


@pytest.mark.covers("S-11")
@pytest.mark.parametrize("stage", ["dial", "first byte", "gap", "total"])
def test_each_phase_has_a_deadline_of_its_own(stage):
    """Hangs at each stage in turn; the other three deadlines are far away, so only the right one can have ended it."""
    settings = {"dial_s": 60.0, "first_byte_s": 60.0, "idle_s": 60.0, "total_s": 60.0}
    settings[{"dial": "dial_s", "first byte": "first_byte_s", "gap": "idle_s", "total": "total_s"}[stage]] = (
        0.3
    )

    async def script(rig):
        rig.add_model()
        if stage == "dial":
            deaf = socket.socket()
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            callers = [socket.socket() for _ in range(4)]
            for caller in callers:
                caller.setblocking(False)
                caller.connect_ex(deaf.getsockname())
            rig.add_route(deaf.getsockname()[1])
        else:
            await rig.add_engine(acts.hangs if stage == "first byte" else acts.hangs_after(2))
        await rig.settle()
        answer = await rig.chat(stream=True)
        if stage in ("gap", "total"):
            *_, error, done = events(answer.text)
            assert (json.loads(error)["error"]["code"], done) == ("timeout", "[DONE]")
        else:
            assert answer.status_code == (502 if stage == "dial" else 504)

    played(script, **settings)
