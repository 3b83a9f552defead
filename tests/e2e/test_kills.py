"""kill -9 of an engine, of the agent, of the server, under load: what clients see, and what is there afterwards."""

import json
import os
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.cluster import Cluster, running, tiny_model
from tests.e2e.rig import TINY_ANSWER, open_folder, until

ASK: Any = [{"role": "user", "content": "Hello"}]
TOKENS = 60


def sim_model(name: str, *arguments: str, replicas: int = 1) -> dict[str, Any]:
    profile = {"name": "sim", "engine": "sim", "cpu_cores": 1, "min_memory_gb": 0.1, "args": list(arguments)}
    return {"name": name, "source": "/dev/null", "profiles": [profile], "scaling": {"min": replicas, "max": replicas}}


@pytest.fixture(scope="module")
def cluster(engine: Path, tiny: Path) -> Iterator[Cluster]:
    """Three nodes: a real model with two replicas, and a slow simulated one with two."""
    with open_folder() as folder:
        models = [
            tiny_model(tiny, "tiny", 2),
            sim_model("slow", "--tokens-per-second", "20", replicas=2),
            sim_model("late", "--ttft", "60s"),
        ]
        # Each node counts this machine's cores as its own; three of them hold five replicas of a core each.
        made = Cluster(folder, engine, models, ("n1", "n2", "n3"))
        with running(made) as alive:
            alive.wait_ready("tiny", 2)
            alive.wait_ready("slow", 2)
            alive.wait_ready("late", 1)
            yield alive


@pytest.fixture
def client(cluster: Cluster) -> openai.OpenAI:
    return openai.OpenAI(base_url=cluster.url, api_key=cluster.key, max_retries=0, timeout=60)


def row_of(cluster: Cluster, request_id: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        done = cluster.ctl("request", request_id, "--json", check=False)
        if done.returncode:
            return None
        value = json.loads(done.stdout)
        return value[0] if isinstance(value, list) else value

    return until(f"the row of {request_id}", found, 15)


def engine_gauge(cluster: Cluster, replica: dict[str, Any], series: str) -> float:
    """Ask an engine itself, with its own key, how many requests it runs."""
    saved = next(p for n in cluster.nodes for p in (cluster.folder / n / "shards").glob(f"{replica['id']}-*.json"))
    spec = json.loads(saved.read_text())["spec"]
    address = f"http://{spec['bind_addr'] or '127.0.0.1'}:{spec['http_port']}/metrics"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {spec['api_key']}"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=5) as answer:
        text = answer.read().decode()
    values = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(series)]
    assert values, f"{series} is not among the engine's metrics"
    return sum(map(float, values))


def test_a_killed_engine_costs_only_its_own_streams_and_comes_back(cluster: Cluster, client: openai.OpenAI) -> None:
    victim, other = cluster.wait_ready("slow", 2)
    started = threading.Barrier(9)

    def one(_: int) -> tuple[str, bool]:
        raw = client.chat.completions.with_raw_response.create(
            model="slow", messages=ASK, stream=True, max_tokens=TOKENS
        )
        stream = iter(raw.parse())
        next(stream)
        started.wait(30)
        try:
            for _ in stream:
                pass
            return raw.headers["x-request-id"], True
        except (openai.APIError, openai.APIConnectionError):
            return raw.headers["x-request-id"], False

    with ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(one, n) for n in range(8)]
        started.wait(30)
        os.kill(cluster.engine_pid(victim["id"]), signal.SIGKILL)
        ended = [run.result(60) for run in runs]
    replica_of = {rid: row_of(cluster, rid)["replica_id"] for rid, _ in ended}
    assert set(replica_of.values()) == {victim["id"], other["id"]}
    for rid, was_whole in ended:
        assert was_whole == (replica_of[rid] == other["id"])
        if not was_whole:
            assert row_of(cluster, rid)["status"] == 502
    again = cluster.wait_ready("slow", 2)
    assert other["id"] in {r["id"] for r in again} and victim["id"] not in {r["id"] for r in again}


@pytest.mark.covers("S-42")
def test_requests_that_had_no_byte_yet_are_answered_by_the_other_replica(
    cluster: Cluster, client: openai.OpenAI
) -> None:
    victim, _ = cluster.wait_ready("tiny", 2)
    stop = threading.Event()
    failures: list[str] = []
    answered = [0]

    def load() -> None:
        while not stop.is_set():
            try:
                answer = client.chat.completions.create(model="tiny", messages=ASK)
                assert answer.choices[0].message.content == TINY_ANSWER
                answered[0] += 1
            except Exception as error:
                failures.append(repr(error))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    until("some answers", lambda: answered[0] > 20)
    os.kill(cluster.engine_pid(victim["id"]), signal.SIGKILL)
    before = answered[0]
    until("answers go on", lambda: answered[0] > before + 40)
    until("the dead one is out", lambda: victim["id"] not in {r["id"] for r in cluster.ready_replicas("tiny")})
    cluster.wait_ready("tiny", 2)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.covers("E-144", "P-30")
def test_a_killed_agent_leaves_its_engine_answering_and_takes_it_over(cluster: Cluster, client: openai.OpenAI) -> None:
    replicas = cluster.wait_ready("tiny", 2)
    mine = replicas[0]
    node = mine["node"]
    pid, saved = cluster.engine_pid(mine["id"]), cluster.folder / node / "shards"
    key = json.loads(next(saved.glob(f"{mine['id']}-*.json")).read_text())["spec"]["api_key"]
    cluster.agents[node].kill()
    for _ in range(5):
        assert client.chat.completions.create(model="tiny", messages=ASK).choices[0].message.content == TINY_ANSWER
    os.kill(pid, 0)
    cluster.agents[node].start()
    cluster.agents[node].program.wait_for("adopted")
    cluster.wait_ready("tiny", 2)
    assert cluster.engine_pid(mine["id"]) == pid
    assert json.loads(next(saved.glob(f"{mine['id']}-*.json")).read_text())["spec"]["api_key"] == key
    os.kill(pid, signal.SIGKILL)
    until("the adopted engine's death is known", lambda: mine["id"] not in {r["id"] for r in cluster.ready_replicas("tiny")})
    cluster.wait_ready("tiny", 2)


@pytest.mark.covers("P-56", "P-22")
def test_a_killed_server_loses_no_replica_and_no_committed_row(cluster: Cluster, client: openai.OpenAI) -> None:
    before = {r["id"]: cluster.engine_pid(r["id"]) for m in ("tiny", "slow", "late") for r in cluster.ready_replicas(m)}
    asked = [
        client.chat.completions.with_raw_response.create(model="tiny", messages=ASK).headers["x-request-id"]
        for _ in range(20)
    ]
    rows = [row_of(cluster, rid) for rid in asked]
    cluster.server.send(signal.SIGKILL)
    cluster.server.process.wait(10)
    cluster.server.arguments = ["server", "--config", str(cluster.server_config)]
    cluster.server.lines.clear()
    cluster.server.start()
    until("the server answers", lambda: cluster.ctl("version", check=False).returncode == 0)
    answering = time.monotonic()
    until("every agent is back", lambda: {n["state"] for n in cluster.ctl_json("nodes")} == {"ready"}
          and len(cluster.ctl_json("nodes")) == 3, 15)  # fmt: skip
    print(f"agents back {time.monotonic() - answering:.2f} s after the admin API answered")
    for model, count in (("tiny", 2), ("slow", 2), ("late", 1)):
        cluster.wait_ready(model, count)
    after = {r["id"]: cluster.engine_pid(r["id"]) for m in ("tiny", "slow", "late") for r in cluster.ready_replicas(m)}
    assert after == before
    assert [row_of(cluster, rid) for rid in asked] == rows
    assert client.chat.completions.create(model="tiny", messages=ASK).choices[0].message.content == TINY_ANSWER


@pytest.mark.covers("S-20", "F-1")
@pytest.mark.parametrize("phase", ["before the first byte", "unstreamed", "streaming"])
def test_a_client_that_leaves_stops_the_engine(cluster: Cluster, phase: str) -> None:
    model = "slow" if phase == "streaming" else "late"
    replicas = cluster.ready_replicas(model)
    series = "vllm:num_requests_running"
    body = json.dumps({"model": model, "messages": ASK, "stream": phase != "unstreamed", "max_tokens": 1000}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {cluster.key}\r\n"
    head += f"x-request-id: leaver-{phase.replace(' ', '-')}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"

    def at_engines() -> float:
        return sum(engine_gauge(cluster, r, series) for r in replicas)

    until("nothing runs", lambda: at_engines() == 0)
    with socket.create_connection(("127.0.0.1", cluster.client_port)) as leaving:
        leaving.sendall(head.encode() + body)
        until("the engine works on it", lambda: at_engines() == 1)
        if phase == "streaming":
            received = b""
            while received.count(b"data: ") < 4:
                received += leaving.recv(4096)
    until("the engine has stopped", lambda: at_engines() == 0, 10)
    row = row_of(cluster, f"leaver-{phase.replace(' ', '-')}")
    assert row["status"] == 499
    assert row["outcome"] == "cancelled"
    assert (row.get("completion_tokens", 0) > 0) == (phase == "streaming")
