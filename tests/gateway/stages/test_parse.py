"""What a call must not hold (X-41), and that its size makes no difference."""

import json

import pytest

from tests.gateway.rig import played


def image(url) -> dict:
    part = {"type": "image_url", "image_url": url}
    return {
        "model": "tiny",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "what?"}, part]}],
    }


@pytest.mark.covers("S-21")
@pytest.mark.parametrize(
    "url",
    [
        {"url": "http://169.254.169.254/latest"},
        {"url": "HTTPS://example.org/x.png", "detail": "low"},
        {"url": "file:///etc/passwd"},
        {"url": " data:image/png;base64,AAAA"},
        "https://example.org/x.png",
    ],
)
def test_an_image_an_engine_would_fetch_is_refused(url):
    async def script(rig):
        rig.add_model()
        engine = await rig.add_engine()
        await rig.settle()
        answer = await rig.post(image(url))
        assert answer.status_code == 400
        assert "data: URL" in answer.json()["error"]["message"]
        assert engine.received == []

    played(script)


def test_an_image_that_is_sent_along_passes():
    async def script(rig):
        rig.add_model()
        engine = await rig.add_engine()
        await rig.settle()
        body = image({"url": "data:image/png;base64,AAAA"})
        assert (await rig.post(body)).status_code == 200
        assert engine.received[0].json["messages"] == body["messages"]

    played(script)


def test_the_words_image_url_in_a_text_are_only_words():
    async def script(rig):
        rig.add_model()
        await rig.add_engine()
        await rig.settle()
        text = 'what is {"image_url": {"url": "http://x"}}?'
        answer = await rig.post({"model": "tiny", "messages": [{"role": "user", "content": text}]})
        assert answer.status_code == 200

    played(script)


def test_a_large_body_is_parsed_in_a_thread_and_reads_the_same():
    async def script(rig):
        rig.add_model()
        engine = await rig.add_engine()
        await rig.settle()
        messages = [{"role": "user", "content": "long " * 200_000}]
        assert (await rig.post({"model": "tiny", "messages": messages})).status_code == 200
        assert engine.received[0].json["messages"] == messages
        answer = await rig.post(json.dumps({"model": "tiny", "messages": messages}).encode()[:-1])
        assert answer.status_code == 400

    played(script)


def test_a_completion_has_no_thread():
    async def script(rig):
        rig.add_model()
        engine = await rig.add_engine()
        await rig.settle()
        answer = await rig.post({"model": "tiny", "prompt": "Once"}, "/v1/completions", **{"x-llmgw-thread": "t1"})
        assert answer.status_code == 400
        assert "x-llmgw-thread" in answer.json()["error"]["message"]
        assert engine.received == []

    played(script)
