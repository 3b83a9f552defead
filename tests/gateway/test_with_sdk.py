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
