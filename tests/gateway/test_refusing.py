"""Every way in which a request can be wrong, and what its client is told (S-3, S-5, S-6, S-10)."""

import gzip
import json

import pytest
import trio

from llmgw.ports import Principal
from llmgw.wire.api_key import digest
from tests.gateway.rig import MESSAGES, api_key, played

CHAT = "/v1/chat/completions"


async def small_fleet(rig) -> None:
    rig.add_model("tiny", aliases=("small",))
    rig.add_model("other")
    rig.add_model("judge", role="guard")
    rig.add_model("vectors", capabilities=("embeddings",))
    await rig.add_engine()
    await rig.add_engine(model="vectors")
    await rig.settle()


def told(answer, status: int, type: str, code: str | None) -> dict:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"]
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == (type, code)
    assert error["message"][0] == "`" or error["message"][0].isupper()
    assert error["message"].endswith(".")
    return error


async def ask(rig, **headers):
    body = json.dumps({"model": "tiny", "messages": MESSAGES}).encode()
    return await rig.client.post(CHAT, content=body, headers={"content-type": "application/json", **headers})


def other(key: str) -> str:
    return key[:-1] + ("x" if key[-1] != "x" else "y")


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({}, "missing"),
        ({"authorization": "Bearer"}, "missing"),
        ({"authorization": f"Basic {api_key()}"}, "not a whole key"),
        ({"authorization": "Bearer sk-123"}, "not a whole key"),
        ({"x-api-key": other(api_key())}, "not a whole key"),
        ({"x-api-key": api_key()[:-1]}, "not a whole key"),
        ({"x-api-key": api_key("Z")}, "not valid"),
        ({"authorization": f"Bearer {api_key('Z')}"}, "not valid"),
        ({"authorization": f"Bearer {api_key()}", "x-api-key": api_key("Z")}, "Two different"),
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/v1/models/tiny"])
def test_without_a_usable_key_nothing_is_answered(headers, word, path):
    async def script(rig):
        await small_fleet(rig)
        answer = await (ask(rig, **headers) if path == CHAT else rig.client.get(path, headers=headers))
        error = told(answer, 401, "authentication_error", "invalid_api_key")
        assert word in error["message"]
        assert rig.usage.rows == []

    played(script)


def test_revoked_and_unknown_keys_are_told_the_same():
    async def script(rig):
        await small_fleet(rig)
        assert (await ask(rig, **{"x-api-key": rig.key})).status_code == 200
        del rig.keys.principals[digest(rig.key)]
        rig.keys.epoch_now += 1
        with trio.fail_after(1):
            while (revoked := await ask(rig, **{"x-api-key": rig.key})).status_code == 200:
                await trio.sleep(0.01)
        unknown = await ask(rig, **{"x-api-key": api_key("Q")})
        assert revoked.text == unknown.text

    played(script)


def test_a_key_is_taken_from_either_header_or_the_same_from_both():
    async def script(rig):
        await small_fleet(rig)
        for headers in (
            {"authorization": f"Bearer {rig.key}"},
            {"authorization": f"bearer {rig.key}"},
            {"x-api-key": rig.key},
            {"authorization": f"Bearer {rig.key}", "x-api-key": rig.key},
        ):
            assert (await ask(rig, **headers)).status_code == 200

    played(script)


def test_an_unknown_key_with_the_store_away_is_503_and_a_known_one_goes_on():
    async def script(rig):
        await small_fleet(rig)
        assert (await ask(rig, **{"x-api-key": rig.key})).status_code == 200
        rig.keys.is_away = True
        answer = await ask(rig, **{"x-api-key": api_key("Q")})
        told(answer, 503, "api_error", "store_unavailable")
        assert answer.headers["retry-after"]
        assert (await ask(rig, **{"x-api-key": rig.key})).status_code == 200
        rig.keys.is_away = False
        assert (await ask(rig, **{"x-api-key": api_key("Q")})).status_code == 401

    played(script)


@pytest.mark.covers("F-15")
def test_a_store_that_is_away_at_the_start_is_503_until_it_is_back():
    async def script(rig):
        rig.keys.is_away = True
        await small_fleet(rig)
        for _ in range(3):
            told(await ask(rig, **{"x-api-key": rig.key}), 503, "api_error", "store_unavailable")
        rig.keys.is_away = False
        assert (await ask(rig, **{"x-api-key": rig.key})).status_code == 200
        rig.keys.is_away = True
        assert (await ask(rig, **{"x-api-key": rig.key})).status_code == 200

    played(script)


def test_a_flood_of_junk_keys_is_429_with_retry_after():
    async def script(rig):
        await small_fleet(rig)
        keys = [api_key(letter) for letter in "BCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij"]
        answers = [await ask(rig, **{"x-api-key": key}) for key in keys]
        assert answers[0].status_code == 401
        flooded = [answer for answer in answers if answer.status_code == 429]
        told(flooded[0], 429, "rate_limit_error", "rate_limit_exceeded")
        assert flooded[0].headers["retry-after"] == "1"

    played(script)


def test_a_spoofed_address_opens_no_second_bucket_and_a_trusted_proxys_does():
    keys = [api_key(letter) for letter in "BCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij"]

    async def spoofed(rig):
        headers = [{"x-api-key": key, "x-forwarded-for": f"10.9.9.{at}"} for at, key in enumerate(keys)]
        assert 429 in [(await ask(rig, **each)).status_code for each in headers]

    async def trusted(rig):
        headers = [{"x-api-key": key, "x-forwarded-for": f"10.9.9.{at}"} for at, key in enumerate(keys)]
        assert {(await ask(rig, **each)).status_code for each in headers} == {401}

    played(spoofed)
    played(trusted, trusted_proxies=("127.0.0.0/8",))


@pytest.mark.covers("S-10")
@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "not JSON"),
        (b'{"model": ', "not JSON"),
        (b'{"model": "tiny", "messages": [}', "byte 31"),
        (b'{"model": "ti\xffny"}', "UTF-8: see byte 13"),
        (b"[1]", "JSON object"),
        (b'{"messages": []}', "`model`"),
        (b'{"model": 7, "messages": []}', "`model`"),
        (b'{"model": "tiny"}', "`messages`"),
        (b'{"model": "tiny", "messages": "x"}', "`messages`"),
        (b'{"model": "tiny", "messages": [], "stream": "yes"}', "`stream`"),
        (b'{"model": "tiny", "messages": ' + b"[" * 200 + b"]" * 200 + b"}", "deeper than 128"),
        (
            b'{"model":"tiny","messages":[{"role":"user","content":[{"type":"image_url",'
            b'"image_url":{"url":"http://10.0.0.1/x.png"}}]}]}',
            "data: URL",
        ),
        (b'{"model":"tiny","messages":[],"user":"' + b"u" * 300 + b'"}', "256"),
        (b'{"model":"tiny","messages":[],"metadata":{"k":"' + b"v" * 600 + b'"}}', "512"),
    ],
)
def test_a_wrong_body_is_400_and_says_where(body, word):
    async def script(rig):
        await small_fleet(rig)
        error = told(await rig.post(body), 400, "invalid_request_error", None)
        assert word in error["message"]
        row = await rig.row()
        assert (row.status, row.outcome, row.cost_micros) == (400, "error", 0)

    played(script)


@pytest.mark.covers("X-36")
@pytest.mark.parametrize(
    "headers",
    [
        {"x-session-id": "s" * 257},
        {"x-llmgw-thread": "t" * 129},
        {"x-llmgw-thread": "a/b"},
        {"x-llmgw-agent": "a b"},
        {"x-llmgw-tags": "novalue"},
        {"x-llmgw-tags": ",".join(f"k{number}=v" for number in range(17))},
    ],
)
def test_a_bad_name_in_a_header_is_400(headers):
    async def script(rig):
        await small_fleet(rig)
        answer = await rig.post({"model": "tiny", "messages": MESSAGES}, **headers)
        told(answer, 400, "invalid_request_error", None)
        answer = await rig.post({"model": "tiny", "messages": MESSAGES}, **{"x-request-id": "a b" * 99})
        assert answer.status_code == 200
        assert " " not in answer.headers["x-request-id"]

    played(script)


@pytest.mark.covers("S-10")
def test_a_body_over_the_bound_is_413_and_still_has_its_row():
    async def script(rig):
        await small_fleet(rig)
        body = {"model": "tiny", "messages": [{"role": "user", "content": "x" * 5000}]}
        told(await rig.post(body), 413, "invalid_request_error", "body_too_large")
        assert (await rig.row()).status == 413
        squeezed = gzip.compress(json.dumps(body).encode())
        told(
            await rig.post(squeezed, **{"content-encoding": "gzip"}),
            413,
            "invalid_request_error",
            "body_too_large",
        )

    played(script, max_body_bytes=4096)


@pytest.mark.covers("S-10")
def test_a_gzip_body_is_understood():
    async def script(rig):
        await small_fleet(rig)
        body = gzip.compress(json.dumps({"model": "tiny", "messages": MESSAGES}).encode())
        assert (await rig.post(body, **{"content-encoding": "gzip"})).status_code == 200

    played(script)


@pytest.mark.covers("S-10")
def test_another_content_type_is_415():
    async def script(rig):
        await small_fleet(rig)
        answer = await rig.post({"model": "tiny", "messages": MESSAGES}, **{"content-type": "text/plain"})
        told(answer, 415, "invalid_request_error", "unsupported_media_type")

    played(script)


def test_an_unknown_model_is_503_lists_the_names_and_is_not_to_be_retried():
    async def script(rig):
        await small_fleet(rig)
        answer = await rig.chat("nobody")
        error = told(answer, 503, "api_error", "model_not_served")
        assert "nobody" in error["message"]
        assert "other, tiny, vectors" in error["message"] or "tiny, other, vectors" in error["message"]
        assert "judge" not in error["message"]
        assert answer.headers["x-should-retry"] == "false"
        assert "retry-after" not in answer.headers
        assert (await rig.row()).model == "nobody"

    played(script)


def test_a_guard_model_is_404_whoever_asks():
    async def script(rig):
        await small_fleet(rig)
        told(await rig.chat("judge"), 404, "invalid_request_error", "not_found")

    played(script)


def test_a_model_the_key_may_not_use_is_403_by_any_of_its_names():
    async def script(rig):
        await small_fleet(rig)
        rig.key = api_key("B")
        rig.add_key(rig.key, models=("small",))
        assert (await rig.chat("small")).status_code == 200
        assert (await rig.chat("tiny")).status_code == 200
        error = told(await rig.chat("other"), 403, "permission_error", "model_not_allowed")
        assert "other" in error["message"]

    played(script)


@pytest.mark.covers("S-23")
def test_chat_and_embedding_models_do_not_stand_in_for_each_other():
    async def script(rig):
        await small_fleet(rig)
        answer = await rig.post({"model": "tiny", "input": "x"}, "/v1/embeddings")
        told(answer, 400, "invalid_request_error", "unsupported_capability")
        told(await rig.chat("vectors"), 400, "invalid_request_error", "unsupported_capability")

    played(script)


@pytest.mark.parametrize(
    "path", ["/v1/nothing", "/v1", "/", "/v1/models/", "/V1/models", "/v1/chat/completions/"]
)
def test_an_unknown_path_is_404(path):
    async def script(rig):
        answer = await rig.client.get(path, headers=rig.headers())
        told(answer, 404, "invalid_request_error", None)

    played(script)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", CHAT, "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", "/v1/models/a", "GET"),
        ("POST", "/health", "GET, HEAD"),
    ],
)
def test_a_wrong_method_is_405_with_allow(method, path, allow):
    async def script(rig):
        answer = await rig.client.request(method, path, headers=rig.headers())
        told(answer, 405, "invalid_request_error", None)
        assert answer.headers["allow"] == allow

    played(script)


def test_a_fault_of_ours_is_500_with_an_id_that_is_in_the_log():
    async def script(rig):
        await small_fleet(rig)

        async def broken(exchange):
            raise RuntimeError("a bug")

        rig.gateway._dispatch = broken
        answer = await rig.chat()
        error = told(answer, 500, "api_error", "internal_error")
        assert "a bug" not in answer.text
        (line,) = [line for line in rig.log.lines if line["message"] == "fault"]
        assert line["fault"] in error["message"]
        assert (await rig.row()).status == 500

    played(script)


def test_an_expired_principal_is_401():
    async def script(rig):
        await small_fleet(rig)
        rig.key = api_key("E")
        principal: Principal = rig.add_key(rig.key, expires_unix=1.0)
        assert principal.expires_unix == 1.0
        told(await rig.chat(), 401, "authentication_error", "invalid_api_key")

    played(script)
