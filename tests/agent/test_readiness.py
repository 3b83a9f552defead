"""Ready means healthy, listing the model, and having computed once."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import pytest
import trio
import trio.testing

from llmgw.agent import readiness
from llmgw.agent.engines.llamacpp import Llamacpp
from llmgw.agent.engines.sim import Sim
from llmgw.agent.process_group import EngineProcess, ProcessIdentity
from llmgw.agent.readiness import NotReady, wait_ready
from llmgw.agent.shard_spec import ShardSpec
from llmgw.config.agent import LlamacppSettings, SupervisorSettings
from llmgw.wire.agent import EngineProfile

ENGINE = Llamacpp(LlamacppSettings())


@contextmanager
def _server(answers: dict[str, list[int]], names: list[str], asked: list[str]) -> Iterator[int]:
    """A server whose paths answer these statuses in turn, the last one for ever."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            pending = answers.get(self.path, [200])
            status = pending.pop(0) if len(pending) > 1 else pending[0]
            body = json.dumps({"data": [{"id": name} for name in names]}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def _wait(port: int, timeout_s: float = 20.0, exited: bool = False) -> None:
    async def main() -> None:
        process = EngineProcess(ProcessIdentity(os.getpid(), 1, "x"), "m", None)
        if exited:
            process.exited.set()
        profile = EngineProfile(engine="llamacpp", served_model_name="m")
        spec = ShardSpec(replica_id="r", shard_id="s", model="m", profile=profile, http_port=port, api_key="k")
        with anyio.fail_after(60):
            await wait_ready(process, ENGINE, spec, timeout_s)

    anyio.run(main, backend="trio")


@pytest.mark.covers("E-131")
def test_each_question_is_asked_until_it_is_answered_and_then_no_more() -> None:
    asked: list[str] = []
    with _server({"/health": [503, 503, 200], "/v1/completions": [503, 200]}, ["m"], asked) as port:
        _wait(port)
    assert asked.count("/v1/completions") == 2 and asked[:3] == ["/health"] * 3 and asked[-1] == "/v1/completions"


@pytest.mark.covers("E-131")
@pytest.mark.parametrize(
    ("answers", "names", "words"),
    [
        ({"/health": [503]}, ["m"], "/health answers 503"),
        ({}, ["another"], "/v1/models does not list m"),
        ({"/v1/models": [500]}, ["m"], "/v1/models answers 500"),
        ({"/v1/completions": [401]}, ["m"], "does not take the key"),
        ({"/v1/completions": [500]}, ["m"], "/v1/completions answers 500"),
    ],
)
def test_a_timeout_says_which_question_was_still_open(answers: dict[str, list[int]], names: list[str], words: str) -> None:
    with _server(answers, names, []) as port, pytest.raises(NotReady) as late:
        _wait(port, 0.6)
    assert words in late.value.sentence


def test_a_model_that_takes_no_completions_has_answered_all_the_same() -> None:
    for status in (400, 404, 501):
        with _server({"/v1/completions": [status]}, ["m"], []) as port:
            _wait(port)


@pytest.mark.covers("E-131")
def test_an_exit_ends_the_wait_at_once() -> None:
    _wait(1, timeout_s=1000.0, exited=True)


@pytest.mark.covers("E-132")
def test_a_worker_that_serves_nothing_is_ready_once_it_stayed_alive_ten_seconds_or_ended() -> None:
    async def main() -> None:
        process = EngineProcess(ProcessIdentity(os.getpid(), 1, "x"), "m", None)
        spec = ShardSpec(replica_id="r", shard_id="s", model="m", profile=EngineProfile(engine="sim"), rank=1, nnodes=2)
        began = trio.current_time()
        await wait_ready(process, Sim(enabled=True), spec, 1000.0)
        assert trio.current_time() - began == pytest.approx(10.0)
        process.exited.set()
        await wait_ready(process, Sim(enabled=True), spec, 1000.0)
        assert trio.current_time() - began == pytest.approx(10.0)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.covers("E-131", "E-134")
def test_the_figures_are_those_of_the_specification() -> None:
    settings = SupervisorSettings()
    assert (settings.ready_timeout, settings.stop_grace) == (1800.0, 30.0)
    assert (readiness._POLL_S, readiness._REQUEST_S) == (1.0, 2.0)
