"""The simulated engine (E-88): a real HTTP server that answers like an engine, at a chosen pace, and fails on demand.

    llmgw sim-engine --listen 127.0.0.1:9000 --model demo --ttft 50ms --tokens-per-second 50

It imitates vLLM's paths and metric names and demands the key in LLMGW_ENGINE_KEY like the others do, on every path but
`/health`. It computes nothing. With `--nnodes N` the leader (rank 0) is ready once every other rank has connected to
`--leader`, and ends when one is lost, as engines over several nodes do.

Failures: `--crash-on-start` exits at once with status 1; `--exit-after` exits with status 1 after that time;
`--fail-after N` answers 500 to every generation after the first N; `--error-rate R` to that share of them, spread
evenly; `--hang` takes generation requests and never answers.
"""

import argparse
import hmac
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
import anyio.abc

from llmgw.config.duration import parse_duration_s
from llmgw.config.refusal import Refused
from llmgw.net.http1_server import Http1Server
from llmgw.net.http_message import ClientFault, Pairs, Request, Responder
from llmgw.net.limits import ListenerLimits
from llmgw.net.listeners import open_listeners, parse_address
from llmgw.testing import sim_answers as answers

_BODY_BYTES = 32 * 1024 * 1024
_JSON = (("content-type", "application/json"),)
_JOIN_RETRY_S = 0.2


@dataclass(frozen=True)
class SimSettings:
    """What the command line asked for. Times in seconds; 0 means at once, or never for `exit_after_s`."""

    listen: str
    model: str
    key: str = ""
    rank: int = 0
    nnodes: int = 1
    leader: str = ""
    load_time_s: float = 0.0
    ttft_s: float = 0.0
    tokens_per_second: float = 0.0
    fail_after: int = -1
    exit_after_s: float = 0.0
    error_rate: float = 0.0
    crash_on_start: bool = False
    hang: bool = False


class SimEngine:
    """One simulated engine process."""

    def __init__(self, settings: SimSettings) -> None:
        self._settings = settings
        self._loaded = anyio.Event()
        self._ranks_missing = settings.nnodes - 1
        self._running = self._asked = self._done = self._prompt_tokens = self._output_tokens = 0

    async def run(self, *, task_status: anyio.abc.TaskStatus[int] = anyio.TASK_STATUS_IGNORED) -> int:
        """Serve until cancelled or told to fail; reports the port listened on. Returns the exit status."""
        settings = self._settings
        if settings.crash_on_start:
            print("sim-engine: crashing on start as asked", file=sys.stderr, flush=True)
            return 1
        async with anyio.create_task_group() as tasks:
            if settings.rank > 0:
                tasks.start_soon(self._join_leader, tasks.cancel_scope)
            else:
                listeners = await open_listeners(settings.listen)
                server = Http1Server(self.answer, ListenerLimits(), _fault_answer)
                tasks.start_soon(server.serve, listeners)
                tasks.start_soon(self._load, tasks.cancel_scope)
                task_status.started(listeners[0].socket.getsockname()[1])
                print(f"sim-engine: {settings.model} on {settings.listen}", file=sys.stderr, flush=True)
            if settings.exit_after_s > 0:
                await anyio.sleep(settings.exit_after_s)
                print("sim-engine: exiting as asked", file=sys.stderr, flush=True)
                tasks.cancel_scope.cancel()
            else:
                await anyio.sleep_forever()
        return 1

    async def _load(self, scope: anyio.CancelScope) -> None:
        """Take the time to load, then wait for the other ranks."""
        await anyio.sleep(self._settings.load_time_s)
        if self._settings.nnodes > 1:
            host, port = parse_address(self._settings.leader)
            listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listener.serve, lambda stream: self._hold_rank(stream, scope))
        else:
            self._loaded.set()

    async def _hold_rank(self, stream: anyio.abc.SocketStream, scope: anyio.CancelScope) -> None:
        """Count a rank in; when it is lost the engine ends."""
        async with stream:
            self._ranks_missing -= 1
            if self._ranks_missing == 0:
                self._loaded.set()
            try:
                await stream.receive(1)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                print("sim-engine: a rank was lost", file=sys.stderr, flush=True)
                scope.cancel()

    async def _join_leader(self, scope: anyio.CancelScope) -> None:
        """Connect to the leader, again and again until it is there, and end with it."""
        host, port = parse_address(self._settings.leader)
        while True:
            try:
                stream = await anyio.connect_tcp(host or "127.0.0.1", port)
                break
            except OSError:
                await anyio.sleep(_JOIN_RETRY_S)
        async with stream:
            try:
                await stream.receive(1)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                scope.cancel()

    async def answer(self, request: Request, responder: Responder) -> None:
        """Answer one request."""
        if request.path == "/health":
            await responder.respond(200 if self._loaded.is_set() else 503, (), b"")
        elif not self._is_authorized(request):
            await responder.respond(401, _JSON, b'{"error":"Unauthorized"}')
        elif not self._loaded.is_set():
            await responder.respond(503, _JSON, _error("Loading model", "unavailable_error", 503))
        else:
            try:
                await self._route(request, responder)
            except answers.BadRequest as bad:
                await responder.respond(400, _JSON, _error(str(bad), "invalid_request_error", 400))

    def _is_authorized(self, request: Request) -> bool:
        wanted = f"Bearer {self._settings.key}"
        given = request.headers.get("authorization") or ""
        return not self._settings.key or hmac.compare_digest(given.encode(), wanted.encode())

    async def _route(self, request: Request, responder: Responder) -> None:
        model = self._settings.model
        match request.method, request.path:
            case "GET", "/v1/models":
                row = {"id": model, "object": "model", "created": 0, "owned_by": "sim", "max_model_len": 8192}
                await _respond(responder, {"object": "list", "data": [row]})
            case "GET", "/metrics":
                await responder.respond(200, (("content-type", "text/plain; version=0.0.4"),), self._metrics())
            case "POST", "/v1/chat/completions":
                await self._generate("chat", request, responder)
            case "POST", "/v1/completions":
                await self._generate("text", request, responder)
            case "POST", "/v1/embeddings":
                await _respond(responder, answers.embeddings(await request.read_body(_BODY_BYTES), model))
            case "POST", "/tokenize":
                await _respond(responder, answers.tokenized(await request.read_body(_BODY_BYTES)))
            case _:
                await responder.respond(404, _JSON, b'{"detail":"Not Found"}')

    async def _generate(self, kind: str, request: Request, responder: Responder) -> None:
        question = answers.read_question(kind, await request.read_body(_BODY_BYTES), self._settings.model)
        self._running += 1
        try:
            self._asked += 1
            if self._settings.hang:
                await anyio.sleep_forever()
            if self._fails():
                await responder.respond(500, _JSON, _error("simulated failure", "internal_error", 500))
                return
            await anyio.sleep(self._settings.ttft_s)
            await self._send(question, responder)
            self._done += 1
            self._prompt_tokens += question.prompt_tokens
            self._output_tokens += len(question.words)
        finally:
            self._running -= 1

    def _fails(self) -> bool:
        """Return whether this request is one to fail: all beyond `fail_after`, and every so many for `error_rate`."""
        settings, asked = self._settings, self._asked
        if 0 <= settings.fail_after < asked:
            return True
        return int(asked * settings.error_rate) > int((asked - 1) * settings.error_rate)

    async def _send(self, question: answers.Question, responder: Responder) -> None:
        gap_s = 1 / self._settings.tokens_per_second if self._settings.tokens_per_second > 0 else 0.0
        if not question.is_stream:
            await anyio.sleep(gap_s * max(len(question.words) - 1, 0))
            await _respond(responder, answers.whole_answer(question))
            return
        await responder.start(200, (("content-type", "text/event-stream"), ("cache-control", "no-cache")))
        is_first = True
        for event, is_token in answers.events(question):
            if is_token and not is_first:
                await anyio.sleep(gap_s)
            is_first = is_first and not is_token
            await responder.write(event)
        await responder.end()

    def _metrics(self) -> bytes:
        label = json.dumps(self._settings.model)
        rows = (
            ("num_requests_running", "gauge", self._running),
            ("num_requests_waiting", "gauge", 0),
            ("kv_cache_usage_perc", "gauge", min(self._running / 64, 1.0)),
            ("prompt_tokens_total", "counter", self._prompt_tokens),
            ("generation_tokens_total", "counter", self._output_tokens),
            ("request_success_total", "counter", self._done),
        )
        lines = [f"# TYPE vllm:{name} {kind}\nvllm:{name}{{model_name={label}}} {value}\n" for name, kind, value in rows]
        return "".join(lines).encode()


async def _respond(responder: Responder, document: object) -> None:
    await responder.respond(200, _JSON, json.dumps(document).encode())


def _error(message: str, kind: str, code: int) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "code": code}}).encode()


def _fault_answer(_request: Request | None, fault: ClientFault) -> tuple[int, Pairs, bytes]:
    return fault.status, _JSON, _error(fault.reason, "invalid_request_error", fault.status)


def settings_of(argv: Sequence[str], key: str) -> SimSettings:
    """Read the command line; argparse ends the process on a wrong one. Raises Refused for a duration that is none."""
    parser = argparse.ArgumentParser(
        prog="llmgw sim-engine", description="A simulated inference engine.", allow_abbrev=False
    )
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    parser.add_argument("--model", required=True, metavar="NAME", help="served model name")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--leader", default="", metavar="HOST:PORT", help="where ranks meet")
    parser.add_argument("--load-time", default="0s", help="before it is healthy")
    parser.add_argument("--ttft", default="0s", help="before an answer's first token")
    parser.add_argument("--tokens-per-second", type=float, default=0.0, help="0 = at once")
    parser.add_argument("--fail-after", type=int, default=-1, metavar="N", help="answer 500 after N generations")
    parser.add_argument("--exit-after", default="0s", help="end with status 1 after this time; 0s = never")
    parser.add_argument("--error-rate", type=float, default=0.0, metavar="R", help="share of generations answered 500")
    parser.add_argument("--crash-on-start", action="store_true")
    parser.add_argument("--hang", action="store_true", help="never answer a generation")
    found = parser.parse_args(argv)
    return SimSettings(
        listen=found.listen,
        model=found.model,
        key=key,
        rank=found.rank,
        nnodes=found.nnodes,
        leader=found.leader,
        load_time_s=parse_duration_s(found.load_time),
        ttft_s=parse_duration_s(found.ttft),
        tokens_per_second=found.tokens_per_second,
        fail_after=found.fail_after,
        exit_after_s=parse_duration_s(found.exit_after),
        error_rate=found.error_rate,
        crash_on_start=found.crash_on_start,
        hang=found.hang,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the simulated engine until a signal; return the exit status."""
    try:
        settings = settings_of(sys.argv[1:] if argv is None else argv, os.environ.get("LLMGW_ENGINE_KEY", ""))
        return anyio.run(SimEngine(settings).run, backend="trio")
    except Refused as refusal:
        print(f"sim-engine: {refusal.sentence}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
