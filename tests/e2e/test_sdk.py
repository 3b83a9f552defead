"""The official client against a real engine through the whole of llmgw."""

from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from tests.e2e.rig import TINY_ANSWER, Up, get, until

ASK = [{"role": "user", "content": "Hello"}]


@pytest.fixture(scope="module")
def client(up: Up) -> openai.OpenAI:
    return openai.OpenAI(base_url=up.url, api_key=up.key, max_retries=0, timeout=60)


def test_the_model_is_listed_and_found_by_id(client: openai.OpenAI) -> None:
    (model,) = client.models.list().data
    assert model.id == "tiny"
    assert client.models.retrieve("tiny").owned_by
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("org/absent")


def test_a_chat_is_answered_under_the_name_asked_for(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="tiny", messages=ASK)  # type: ignore[arg-type]
    assert answer.choices[0].message.content == TINY_ANSWER
    assert answer.model == "tiny"
    assert answer.usage is not None and answer.usage.completion_tokens > 0


def test_a_stream_arrives_in_pieces_and_holds_no_usage_unasked(client: openai.OpenAI) -> None:
    chunks = list(client.chat.completions.create(model="tiny", messages=ASK, stream=True))  # type: ignore[call-overload]
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == TINY_ANSWER
    assert len(chunks) > 10
    assert all(c.usage is None and c.choices for c in chunks)
    assert {c.model for c in chunks} == {"tiny"}


@pytest.mark.covers("S-18")
def test_usage_on_a_stream_reaches_only_a_client_that_asked(client: openai.OpenAI, up: Up) -> None:
    asked = list(
        client.chat.completions.create(
            model="tiny", messages=ASK, stream=True, stream_options={"include_usage": True}
        )  # type: ignore[call-overload]
    )
    assert asked[-1].usage is not None and asked[-1].choices == []
    raw = client.chat.completions.with_raw_response.create(model="tiny", messages=ASK, stream=True)  # type: ignore[call-overload]
    request_id = raw.headers["x-request-id"]
    chunks = list(raw.parse())
    assert all(c.choices for c in chunks)
    # Rows are written a moment after the answer: reported every 200 ms, flushed every 200 ms.
    until("the request's row", lambda: up.ctl("request", request_id, check=False).returncode == 0, 15)
    row = up.ctl_json("request", request_id)
    assert (row if isinstance(row, dict) else row[0])["completion_tokens"] == asked[-1].usage.completion_tokens


def test_completions_streamed_and_not(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="tiny", prompt="Once", max_tokens=40)
    pieces = client.completions.create(model="tiny", prompt="Once", max_tokens=40, stream=True)
    assert whole.choices[0].text.strip() == "".join(p.choices[0].text for p in pieces if p.choices).strip()
    assert whole.choices[0].text.strip()


def test_a_hundred_streams_at_once_are_all_whole(client: openai.OpenAI) -> None:
    def one(_: int) -> str:
        stream = client.chat.completions.create(model="tiny", messages=ASK, stream=True)  # type: ignore[call-overload]
        return "".join(c.choices[0].delta.content or "" for c in stream)

    with ThreadPoolExecutor(100) as pool:
        assert set(pool.map(one, range(100))) == {TINY_ANSWER}


def test_an_unknown_model_lists_what_is_served_and_is_not_retried(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        client.chat.completions.create(model="absent", messages=ASK)  # type: ignore[arg-type]
    assert caught.value.status_code == 503
    assert caught.value.code == "model_not_served"
    assert "tiny" in caught.value.message
    assert caught.value.response.headers["x-should-retry"] == "false"


def test_a_wrong_key_is_an_authentication_error(up: Up) -> None:
    for key in ("sk-nonsense", up.key[:-1] + ("a" if up.key[-1] != "a" else "b")):
        with pytest.raises(openai.AuthenticationError) as caught:
            openai.OpenAI(base_url=up.url, api_key=key, max_retries=0).models.list()
        assert caught.value.code == "invalid_api_key"


def test_a_chat_model_refuses_embeddings_in_words(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="tiny", input="x")


def test_messages_of_a_wrong_kind_are_the_clients_fault(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="tiny", messages="Hello")  # type: ignore[arg-type]


def test_an_assistant_message_without_content_is_accepted(client: openai.OpenAI) -> None:
    history = [*ASK, {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"}, *ASK]  # fmt: skip
    answer = client.chat.completions.create(model="tiny", messages=history)  # type: ignore[arg-type]
    assert answer.choices[0].message.content == TINY_ANSWER


def test_probes_need_no_key(up: Up) -> None:
    root = up.url.removesuffix("/v1")
    assert get(f"{root}/health")[0] == 200
    assert get(f"{root}/ready")[0] == 200
    assert get(f"{root}/leader")[0] == 200
    assert get(f"{root}/v1/models")[0] == 401
    assert get(f"{root}/v1/nothing", up.key)[0] == 404
