"""What needs a model of its kind: tools, vectors, constrained output; and what a machine without a GPU shows."""

import json
import socket
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from llmgw.admin.routes import API, ROUTES
from llmgw.testing.tiny_gguf import tiny_gguf
from tests.e2e.cluster import Cluster, running, tiny_model
from tests.e2e.rig import TINY_ANSWER, get, open_folder, until

ASK: Any = [{"role": "user", "content": "Hello"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
DOT = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture(scope="module")
def cluster(engine: Path, tiny: Path, ground: Path) -> Iterator[Cluster]:
    """Two nodes with a chat model, a model that calls a tool, and one that makes vectors; a core each."""
    for kind in ("tools", "embed"):
        (ground / f"{kind}.gguf").write_bytes(tiny_gguf(kind))
    vectors = tiny_model(ground / "embed.gguf", "vectors", capabilities=["embeddings"])
    vectors["profiles"][0]["args"] += ["--embedding"]
    caller = tiny_model(ground / "tools.gguf", "caller", capabilities=["tools"])
    caller["profiles"][0]["args"] += ["--jinja"]
    with open_folder() as folder:
        models = [tiny_model(tiny, "tiny", aliases=["small"]), caller, vectors]
        with running(Cluster(folder, engine, models, ("n1", "n2"))) as alive:
            for model in ("tiny", "caller", "vectors"):
                alive.wait_ready(model)
            yield alive


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> openai.OpenAI:
    return openai.OpenAI(base_url=cluster.url, api_key=cluster.key, max_retries=0, timeout=60)


def spec_of(cluster: Cluster, model: str) -> dict[str, Any]:
    """Return what the agent saved of a model's only shard."""
    (replica,) = cluster.ready_replicas(model)
    (saved,) = (cluster.folder / replica["node"] / "shards").glob(f"{replica['id']}-*.json")
    return json.loads(saved.read_text())["spec"]


@pytest.mark.covers("S-21")
def test_a_chat_is_answered_whole_and_in_pieces_under_the_name_asked_for(client: openai.OpenAI) -> None:
    for name in ("tiny", "small"):
        whole = client.chat.completions.create(model=name, messages=ASK)
        pieces = list(client.chat.completions.create(model=name, messages=ASK, stream=True))
        assert whole.choices[0].message.content == TINY_ANSWER
        assert "".join(p.choices[0].delta.content or "" for p in pieces) == TINY_ANSWER
        assert {whole.model, *(p.model for p in pieces)} == {name}


@pytest.mark.covers("S-21")
def test_a_tool_is_called_and_its_result_is_answered(client: openai.OpenAI) -> None:
    asked = client.chat.completions.create(model="caller", messages=ASK, tools=[WEATHER])
    (call,) = asked.choices[0].message.tool_calls or []
    assert asked.choices[0].finish_reason == "tool_calls"
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Paris"})
    turns: Any = [
        *ASK, asked.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "18 degrees"},
    ]  # fmt: skip
    answer = client.chat.completions.create(model="tiny", messages=turns, tools=[WEATHER])
    assert (answer.choices[0].message.content or "").strip() == TINY_ANSWER.strip()
    name, arguments = "", ""
    for chunk in client.chat.completions.create(model="caller", messages=ASK, tools=[WEATHER], stream=True):
        for part in (chunk.choices[0].delta.tool_calls or []) if chunk.choices else []:
            assert part.index == 0
            name += (part.function and part.function.name) or ""
            arguments += (part.function and part.function.arguments) or ""
    assert (name, json.loads(arguments)) == ("get_weather", {"city": "Paris"})


@pytest.mark.covers("S-21")
def test_an_answer_keeps_to_the_schema_asked_for(client: openai.OpenAI) -> None:
    schema = {
        "type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False,
    }  # fmt: skip
    answer = client.chat.completions.create(
        model="tiny", messages=ASK, max_tokens=200,
        response_format={"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema, "strict": True}},
    )  # fmt: skip
    assert set(json.loads(answer.choices[0].message.content or "")) == {"ok"}


@pytest.mark.covers("S-21")
def test_an_image_reaches_the_engine_when_sent_along_and_is_refused_when_it_would_be_fetched(
    client: openai.OpenAI,
) -> None:
    def look(url: str) -> openai.BadRequestError:
        content = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": content}])  # type: ignore[list-item, misc]
        return caught.value

    # This model has no eyes, and it is the engine that says so.
    assert "image input is not supported" in look(DOT).message
    for url in ("http://127.0.0.1/x.png", "https://host.example/x.png"):
        assert "data: URL" in look(url).message


def test_completions_take_a_text_several_and_token_ids(client: openai.OpenAI) -> None:
    one = client.completions.create(model="tiny", prompt="Once", max_tokens=40)
    pieces = client.completions.create(model="tiny", prompt="Once", max_tokens=40, stream=True)
    assert "".join(p.choices[0].text for p in pieces if p.choices) == one.choices[0].text
    assert one.choices[0].text.strip()
    several = client.completions.create(model="tiny", prompt=["Once", "Twice"], max_tokens=5)
    assert len(several.choices) == 2
    assert client.completions.create(model="tiny", prompt=[72, 105], max_tokens=5).choices[0].text


@pytest.mark.covers("S-23", "E-51")
def test_vectors_are_the_same_in_every_encoding_and_chat_models_make_none(client: openai.OpenAI) -> None:
    usual = client.embeddings.create(model="vectors", input="a cat")
    assert usual.usage.prompt_tokens > 0
    vector = usual.data[0].embedding
    assert len(vector) > 8
    assert any(vector)
    floats = client.embeddings.create(model="vectors", input="a cat", encoding_format="float").data[0].embedding
    assert floats == pytest.approx(vector, rel=1e-4)
    assert isinstance(client.embeddings.with_raw_response.create(
        model="vectors", input="a cat", encoding_format="base64").http_response.json()["data"][0]["embedding"], str)  # fmt: skip
    assert len(client.embeddings.create(model="vectors", input=["a", "b"]).data) == 2
    with pytest.raises(openai.BadRequestError, match="embeddings"):
        client.embeddings.create(model="tiny", input="a cat")
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="vectors", messages=ASK)


@pytest.mark.covers("S-21")
def test_the_first_token_comes_within_5_ms_of_the_engines_own(client: openai.OpenAI, cluster: Cluster) -> None:
    spec = spec_of(cluster, "tiny")
    direct = openai.OpenAI(
        base_url=f"http://{spec['bind_addr']}:{spec['http_port']}/v1", api_key=spec["api_key"], max_retries=0
    )

    def first_token_ms(asked: openai.OpenAI) -> float:
        began = time.perf_counter()
        stream = iter(asked.chat.completions.create(model="tiny", messages=ASK, stream=True))
        while not (chunk := next(stream)).choices or not chunk.choices[0].delta.content:
            pass
        took_ms = (time.perf_counter() - began) * 1000
        for _ in stream:
            pass
        return took_ms

    # The two are asked in turn, so that what else this machine does weighs on both alike; and again when it did not.
    extra_ms = [99.0]
    while len(extra_ms) < 10 and extra_ms[-1] >= 5:
        pairs = [(first_token_ms(direct), first_token_ms(client)) for _ in range(25)]
        extra_ms.append(statistics.median(through for _, through in pairs) - statistics.median(own for own, _ in pairs))
    print("added before the first token, ms, p50 of each round:", [round(each, 2) for each in extra_ms[1:]])
    assert extra_ms[-1] < 5


@pytest.mark.covers("E-7")
def test_an_engine_listens_on_its_nodes_address_alone(cluster: Cluster) -> None:
    spec = spec_of(cluster, "tiny")
    assert spec["bind_addr"] in ("127.0.0.2", "127.0.0.3")
    assert get(f"http://{spec['bind_addr']}:{spec['http_port']}/health")[0] == 200
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.1", spec["http_port"])) != 0


@pytest.mark.covers("P-34", "C-45")
def test_every_view_of_a_machine_without_gpus_answers_and_none_holds_a_secret(
    cluster: Cluster, client: openai.OpenAI
) -> None:
    raw = client.chat.completions.with_raw_response.create(model="tiny", messages=ASK)
    known = {"/nodes/{id}": "n1", "/models/{name}": "tiny", "/requests/{id}": raw.headers["x-request-id"]}
    until("the row is written", lambda: cluster.ctl("request", known["/requests/{id}"], check=False).returncode == 0)
    token = (cluster.folder / "store" / "admin-token").read_text().strip()
    seen = {}
    for route in (route for route in ROUTES if route.method == "GET"):
        path = route.path
        for start, value in known.items():
            if path.startswith(start):
                path = path.replace(start[start.index("{") :], value)
        seen[path] = get(f"http://127.0.0.1:{cluster.admin_port}{API}{path}", token)
    assert {path: status for path, (status, _) in seen.items() if status != 200} == {}
    assert json.loads(seen["/nodes/n1"][1])["gpu_total"] == 0
    everything = b"\n".join(body for _, body in seen.values()).decode()
    engine_keys = [spec_of(cluster, model)["api_key"] for model in ("tiny", "caller", "vectors")]
    assert [secret for secret in (token, cluster.key, *engine_keys) if secret in everything] == []
    assert "PRIVATE KEY" not in everything


@pytest.mark.covers("S-10")
def test_a_body_of_33_mb_is_refused_without_growing_by_it(cluster: Cluster) -> None:
    def most_kib() -> int:
        status = Path(f"/proc/{cluster.server.process.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))

    before_kib, size = most_kib(), 33 * 1024 * 1024
    with socket.create_connection(("127.0.0.1", cluster.client_port)) as sender:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {cluster.key}\r\n"
        sender.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode() + b" " * 65_536)
        assert sender.recv(4096).startswith(b"HTTP/1.1 413 ")
    assert most_kib() - before_kib < 8 * 1024


@pytest.mark.covers("S-42")
def test_a_real_engines_load_page_is_read_and_its_key_is_demanded(cluster: Cluster) -> None:
    from llmgw.gateway.replicas import Gauges
    from llmgw.gateway.scrape import gauges_of

    spec = spec_of(cluster, "tiny")
    address = f"http://{spec['bind_addr']}:{spec['http_port']}/metrics"
    assert get(address)[0] == 401
    status, page = get(address, spec["api_key"])
    assert (status, gauges_of("llamacpp", page)) == (200, Gauges(0.0, 0.0, None))
