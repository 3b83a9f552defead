"""The simulated engine over real sockets: its answers, its key, its figures and each of its failures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from llmgw.testing.sim_engine import SimEngine, settings_of
from tests.agent.node_rig import free_port

HEADERS = {"Authorization": "Bearer k"}
HI = {"messages": [{"role": "user", "content": "hi you"}]}
pytestmark = pytest.mark.covers("E-88")
ROOT = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def _engine(*args: str) -> AsyncIterator[httpx.AsyncClient]:
    engine = SimEngine(settings_of(["--listen", "127.0.0.1:0", "--model", "demo", *args], "k"))
    async with anyio.create_task_group() as tasks:
        port = await tasks.start(engine.run)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=HEADERS, timeout=30) as client:
            yield client
        tasks.cancel_scope.cancel()


async def _healthy(client: httpx.AsyncClient) -> None:
    with anyio.fail_after(20):
        while (await client.get("/health")).status_code != 200:
            await anyio.sleep(0.01)


def _run(main: Callable[[httpx.AsyncClient], Awaitable[None]], *args: str) -> None:
    async def inside() -> None:
        with anyio.fail_after(60):
            async with _engine(*args) as client:
                await main(client)

    anyio.run(inside, backend="trio")


def test_it_answers_chat_completions_embeddings_tokens_and_models() -> None:
    async def main(client: httpx.AsyncClient) -> None:
        await _healthy(client)
        assert [row["id"] for row in (await client.get("/v1/models")).json()["data"]] == ["demo"]
        chat = (await client.post("/v1/chat/completions", json=HI)).json()
        assert chat["choices"][0]["message"]["content"] == "Simulated answer to: hi you"
        assert chat["usage"] == {"prompt_tokens": 2, "completion_tokens": 5, "total_tokens": 7}
        text = (await client.post("/v1/completions", json={"prompt": "a b c", "max_tokens": 2})).json()
        assert text["choices"][0]["text"] == "Simulated answer" and text["choices"][0]["finish_reason"] == "length"
        tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
        called = (await client.post("/v1/chat/completions", json={**HI, "tools": tools})).json()["choices"][0]
        assert called["finish_reason"] == "tool_calls"
        assert json.loads(called["message"]["tool_calls"][0]["function"]["arguments"]) == {"input": "hi you"}
        one, two, other = [
            (await client.post("/v1/embeddings", json={"input": word})).json()["data"][0]["embedding"] for word in "aab"
        ]
        assert one == two != other
        assert (await client.post("/tokenize", json={"prompt": "a b"})).json()["count"] == 2
        assert (await client.post("/v1/completions", content=b"{")).status_code == 400
        assert (await client.post("/v1/chat/completions", json={**HI, "model": "x"})).status_code == 400
        assert (await client.get("/nowhere")).status_code == 404

    _run(main)


def test_a_stream_has_its_tokens_its_finish_its_usage_when_asked_and_its_done() -> None:
    async def main(client: httpx.AsyncClient) -> None:
        await _healthy(client)
        for options in ({}, {"stream_options": {"include_usage": True}}):
            answer = await client.post("/v1/chat/completions", json={**HI, "stream": True, **options})
            lines = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
            assert lines[-1] == "[DONE]"
            events: list[dict[str, Any]] = [json.loads(line) for line in lines[:-1]]
            words = [one["choices"][0]["delta"].get("content", "") for one in events if one["choices"]]
            assert "".join(words) == "Simulated answer to: hi you"
            assert ("usage" in events[-1]) is bool(options)

    _run(main)


def test_everything_but_health_demands_the_key_and_waits_for_the_load() -> None:
    async def main(client: httpx.AsyncClient) -> None:
        assert (await client.get("/health")).status_code == 503
        assert (await client.get("/v1/models")).status_code == 503
        for path in ("/v1/models", "/metrics"):
            assert (await client.get(path, headers={"Authorization": "Bearer no"})).status_code == 401
        await _healthy(client)

    _run(main, "--load-time", "2s")


def test_requests_are_counted_while_they_run_and_a_client_that_leaves_frees_its_place() -> None:
    async def main(client: httpx.AsyncClient) -> None:
        await _healthy(client)
        async with client.stream("POST", "/v1/chat/completions", json={**HI, "stream": True}) as answer:
            async for _ in answer.aiter_raw():
                break
            assert 'vllm:num_requests_running{model_name="demo"} 1\n' in (await client.get("/metrics")).text
        with anyio.fail_after(10):
            while 'vllm:num_requests_running{model_name="demo"} 0\n' not in (await client.get("/metrics")).text:
                await anyio.sleep(0.01)

    _run(main, "--tokens-per-second", "0.1")


def test_failures_come_where_they_were_asked_for() -> None:
    async def after_two(client: httpx.AsyncClient) -> None:
        await _healthy(client)
        assert [(await client.post("/v1/chat/completions", json=HI)).status_code for _ in range(4)] == [200, 200, 500, 500]

    async def every_fourth(client: httpx.AsyncClient) -> None:
        await _healthy(client)
        statuses = [(await client.post("/v1/chat/completions", json=HI)).status_code for _ in range(8)]
        assert statuses.count(500) == 2

    async def hangs(client: httpx.AsyncClient) -> None:
        await _healthy(client)
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/v1/chat/completions", json=HI, timeout=0.2)
        assert (await client.get("/metrics")).status_code == 200

    _run(after_two, "--fail-after", "2")
    _run(every_fourth, "--error-rate", "0.25")
    _run(hangs, "--hang")


def test_a_shortened_option_is_none_so_that_a_profile_cannot_reach_a_denied_one(capsys: pytest.CaptureFixture[str]) -> None:
    """`--lis` passed the check of definitions, which has no such option, and moved the engine to another address."""
    with pytest.raises(SystemExit):
        settings_of(["--listen", "127.0.0.1:0", "--model", "m", "--lis=127.0.0.1:1"], "k")
    assert "unrecognized arguments: --lis" in capsys.readouterr().err


@pytest.mark.parametrize("args", [["--crash-on-start"], ["--exit-after", "50ms"]])
def test_it_ends_with_status_1_where_that_was_asked_for(args: list[str]) -> None:
    command = [sys.executable, "-m", "llmgw.testing.sim_engine", "--listen", "127.0.0.1:0", "--model", "m", *args]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=60).returncode == 1


def test_over_several_nodes_the_leader_is_ready_when_every_rank_is_there_and_all_end_together() -> None:
    async def inside() -> None:
        meet = f"127.0.0.1:{free_port()}"
        ended: list[int] = []

        async def rank(number: int, scope: anyio.CancelScope | None = None) -> None:
            args = ["--listen", "127.0.0.1:0", "--model", "demo", "--leader", meet, "--nnodes", "3", "--rank", str(number)]
            with scope or anyio.CancelScope():
                await SimEngine(settings_of(args, "k")).run()
                ended.append(number)

        with anyio.fail_after(30):
            async with _engine("--nnodes", "3", "--leader", meet) as client, anyio.create_task_group() as tasks:
                lost = anyio.CancelScope()
                tasks.start_soon(rank, 1)
                assert (await client.get("/health")).status_code == 503
                tasks.start_soon(rank, 2, lost)
                await _healthy(client)
                lost.cancel()
                while ended != [1]:
                    await anyio.sleep(0.01)

    anyio.run(inside, backend="trio")
