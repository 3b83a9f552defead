"""The official OpenAI SDK against the gateway: its own exceptions, its own parser of streams."""

from typing import Any

import openai
import pytest
import trio

from llmgw.testing import fake_engine as acts
from tests.gateway.rig import MESSAGES, api_key, played

Client = openai.OpenAI


async def with_sdk(rig, use, **more: Any):
    """Run a function of the SDK's client in a thread."""
    options = {"api_key": rig.key, "max_retries": 0, **more}

    def work():
        with Client(base_url=f"http://127.0.0.1:{rig.port}/v1", **options) as client:
            return use(client)

    return await trio.to_thread.run_sync(work)


def chat(client: Client, model: str = "tiny", **more: Any):
    return client.chat.completions.create(model=model, messages=MESSAGES, **more)


def streamed(client: Client) -> str:
    return "".join(
        chunk.choices[0].delta.content or "" for chunk in chat(client, stream=True) if chunk.choices
    )


def test_chat_stream_completion_embedding_and_list():
    async def script(rig):
        rig.add_model()
        rig.add_model("vectors", capabilities=("embeddings",))
        await rig.add_engine()
        await rig.add_engine(model="vectors")
        await rig.settle()
        text = "".join(acts.WORDS)
        assert (await with_sdk(rig, chat)).choices[0].message.content == text
        assert await with_sdk(rig, streamed) == text
        made = await with_sdk(rig, lambda client: client.completions.create(model="tiny", prompt="Once"))
        assert made.choices[0].text == text
        for options in ({}, {"encoding_format": "float"}):
            vectors = await with_sdk(
                rig,
                lambda client, given=options: client.embeddings.create(model="vectors", input="w", **given),
            )
            assert vectors.data[0].embedding == [0.5, -0.25]
        assert [model.id for model in await with_sdk(rig, lambda client: list(client.models.list()))] == [
            "tiny",
            "vectors",
        ]

    played(script)


def test_an_engine_killed_in_the_middle_raises_and_does_not_look_complete():
    async def script(rig):
        rig.add_model()
        await rig.add_engine(acts.dies_after(3))
        await rig.settle()
        with pytest.raises(openai.APIError):
            await with_sdk(rig, streamed)

    played(script)


def test_each_status_raises_the_sdks_own_exception():
    async def script(rig):
        rig.add_model()
        rig.add_model("other")
        rig.add_model("judge", role="guard")
        engine = await rig.add_engine()
        await rig.settle()
        with pytest.raises(openai.AuthenticationError, match="not valid"):
            await with_sdk(rig, chat, api_key=api_key("Z"))
        with pytest.raises(openai.NotFoundError):
            await with_sdk(rig, lambda client: chat(client, "judge"))
        with pytest.raises(openai.BadRequestError, match="stream"):
            await with_sdk(rig, lambda client: chat(client, extra_body={"stream": "x"}))
        with pytest.raises(openai.InternalServerError, match="not served"):
            await with_sdk(rig, lambda client: chat(client, "nobody"))
        engine.usual = acts.dies_before_its_first_byte
        with pytest.raises(openai.InternalServerError, match="upstream|tried"):
            await with_sdk(rig, chat)
        rig.key = api_key("B")
        rig.add_key(rig.key, models=("tiny",))
        with pytest.raises(openai.PermissionDeniedError, match="other"):
            await with_sdk(rig, lambda client: chat(client, "other"))

    played(script)


def too_long(stage: acts.Stage) -> Any:
    return acts.says(400, "This model's maximum context length is 8 tokens, not 9")(stage)


def faulty(rig) -> None:
    async def broken(exchange) -> None:
        raise RuntimeError("a bug")

    rig.gateway._dispatch = broken


def acting(act: acts.Act) -> Any:
    def prepare(rig) -> None:
        rig.engines[0].usual = act

    return prepare


def away(rig) -> None:
    rig.keys.is_away = True


def embed(client: Client) -> Any:
    return client.embeddings.create(model="tiny", input="x")


def flood(client: Client) -> Any:
    for letter in "BCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij":
        try:
            chat(client.with_options(api_key=api_key(letter)))
        except openai.AuthenticationError:
            continue
    raise AssertionError("nobody stopped the flood")


INTERNAL, ANY = openai.InternalServerError, openai.APIStatusError
KINDS = {
    "context_length_exceeded": (acting(too_long), chat, openai.BadRequestError, 400, "maximum context length"),
    "unsupported_capability": (None, embed, openai.BadRequestError, 400, "embeddings"),
    "not_found": (None, lambda client: chat(client, "judge"), openai.NotFoundError, 404, "judge"),
    "method": (None, lambda client: client.get("/chat/completions", cast_to=object), ANY, 405, "POST"),
    "body_too_large": (None, lambda client: chat(client, user="u" * 9000), ANY, 413, "4096"),
    "unsupported_media_type": (
        None, lambda client: chat(client, extra_headers={"content-type": "text/plain"}), ANY, 415, "application/json",
    ),
    "rate_limit_exceeded": (None, flood, openai.RateLimitError, 429, "unknown API keys"),
    "internal_error": (faulty, chat, INTERNAL, 500, "its log has fault"),
    "upstream_error": (acting(acts.dies_before_its_first_byte), chat, INTERNAL, 502, "broke off"),
    "model_not_served": (None, lambda client: chat(client, "nobody"), INTERNAL, 503, "tiny, other"),
    "model_loading": (None, lambda client: chat(client, "asleep"), INTERNAL, 503, "still loading"),
    "overloaded": (None, lambda client: chat(client, "other"), INTERNAL, 503, "other"),
    "store_unavailable": (away, chat, INTERNAL, 503, "key store"),
    "timeout": (acting(acts.hangs), chat, INTERNAL, 504, "in time"),
}  # fmt: skip
"""Every kind of S-6 that something here sends and this SDK can provoke, 401 and 403 aside, which are above."""
WITH_RETRY_AFTER = {"rate_limit_exceeded", "model_loading", "overloaded", "store_unavailable"}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_refusal_is_the_exception_of_its_status_with_its_code_and_words(kind: str):
    prepare, call, exception, status, words = KINDS[kind]

    async def script(rig):
        rig.add_model()
        rig.add_model("other")
        rig.add_model("asleep", status="starting")
        rig.add_model("judge", role="guard")
        await rig.add_engine()
        await rig.settle()
        if prepare:
            prepare(rig)
        with pytest.raises(exception) as caught:
            await with_sdk(rig, call)
        error = caught.value
        assert (error.status_code, error.code) == (status, None if kind == "method" else kind)
        assert words in error.message
        assert ("retry-after" in error.response.headers) == (kind in WITH_RETRY_AFTER)
        assert (error.response.headers.get("x-should-retry") == "false") == (kind in ("model_not_served", "internal_error"))

    played(script, max_body_bytes=4096, first_byte_s=0.3, load_wait_s=0.1)


def test_the_sdks_own_retry_waits_as_long_as_retry_after_says():
    async def script(rig):
        rig.add_model()
        await rig.add_engine()
        await rig.settle()
        rig.keys.is_away = True

        async def comes_back() -> None:
            while not any(line.get("status") == 503 for line in rig.log.lines):
                await trio.sleep(0.01)
            rig.keys.is_away = False

        began_s = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(comes_back)
            answer = await with_sdk(rig, chat, max_retries=1)
        assert answer.choices[0].message.content == "".join(acts.WORDS)
        # Its own first pause is at most a second.
        assert trio.current_time() - began_s >= 2

    played(script)


def test_the_sdk_does_not_retry_a_model_that_is_not_served():
    async def script(rig):
        await rig.settle()
        with pytest.raises(openai.InternalServerError):
            await with_sdk(rig, lambda client: chat(client, "nobody"), max_retries=3)
        row = await rig.row()
        assert row.status == 503

    played(script)


@pytest.mark.covers("S-18", "F-4")
def test_tokens_are_always_known_and_the_usage_chunk_reaches_only_who_asked():
    def chunks_with_usage(client: Client, **options: Any) -> list[Any]:
        return [chunk for chunk in chat(client, stream=True, **options) if chunk.usage is not None]

    async def script(rig):
        rig.add_model()
        engine = await rig.add_engine()
        await rig.settle()
        assert await with_sdk(rig, chunks_with_usage) == []
        row = await rig.row()
        assert (row.prompt_tokens, row.completion_tokens, row.tokens_estimated) == (5, 4, False)

        asked = {"stream_options": {"include_usage": True}}
        (chunk,) = await with_sdk(rig, lambda client: chunks_with_usage(client, **asked))
        assert (chunk.choices, chunk.usage.completion_tokens) == ([], 4)
        assert (await rig.row(2)).completion_tokens == 4

        engine.usual = acts.byte_by_byte(acts.WORDS)
        assert await with_sdk(rig, chunks_with_usage) == []
        row = await rig.row(3)
        assert (row.completion_tokens, row.tokens_estimated) == (4, True)
        assert all(each.json["stream_options"]["include_usage"] for each in engine.received)

    played(script)
