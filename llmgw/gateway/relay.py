"""One try at one replica, on the awaited path: every event is read here before it is passed on.

Nothing is committed towards the client until the first whole event of a stream, or the whole of an unstreamed answer,
is in hand: until then a failure is only an `Attempt` and another replica may be tried. Afterwards a failure is told
inside the stream, as one error event and `[DONE]`, because a stream that merely ends looks like success (F-5).

An engine's own words reach the client only as a refusal of the request (4xx), scrubbed. Its 401 and 403 are about our
key for it, not the client's, so they count as a broken engine.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing

import anyio
import anyio.to_thread
import msgspec

from llmgw.gateway.engine_request import engine_body, engine_headers
from llmgw.gateway.exchange import STREAM_HEADERS, Exchange
from llmgw.gateway.refusals import Refusal, of_status, timed_out, upstream_error
from llmgw.gateway.scrub import scrubbed
from llmgw.net.deadlines import Deadlines
from llmgw.net.engine_pool import Endpoint, EngineAnswer, EnginePool
from llmgw.net.upstream_errors import ConnectFailed, FirstByteTimeout, IdleTimeout, UpstreamError
from llmgw.ports import ReplicaRoute
from llmgw.wire.openai_chat import Answer, NotAnAnswer, error_message, read_answer
from llmgw.wire.openai_errors import CONTEXT_LENGTH_EXCEEDED, UNSUPPORTED_CAPABILITY, stream_error
from llmgw.wire.openai_stream import EngineSaid, StreamReader
from llmgw.wire.sse import SSEParser, SSETooLong

LARGEST_ANSWER_BYTES = 64 * 1024 * 1024
LARGEST_ERROR_BYTES = 65_536
LARGE_ANSWER_BYTES = 262_144
DRAIN_S = 1.0
OUR_FAULT = (401, 403, 407)
TOO_LONG = (b"exceed_context_size", b"maximum context length", b"longer than the maximum model length")
"""How llama.cpp, vLLM and SGLang say that a prompt does not fit."""

MISREAD = (
    b'"message":"[json.exception.',
    b'"message":"Failed to parse messages',
    b'"message":"Failed to parse tools',
    b'"message":"Unknown reasoning format',
)
CANNOT_SEE = (b'"message":"image input is not supported', b'"message":"audio input is not supported')
"""What llama.cpp (b10068) calls its own fault, 500, and is the request's: tried elsewhere it fails as it did here."""


class Attempt(msgspec.Struct, frozen=True):
    """A try that did not answer, with nothing sent to the client. `reason` is a metric label; final ones end here."""

    reason: str
    refusal: Refusal
    is_final: bool = False


async def end_with_error(exchange: Exchange, refusal: Refusal) -> None:
    """Tell a failure inside a started stream (S-8); the usage row gets the status that would have been sent.

    A stream that was interrupted within a write cannot be continued, since half an event is out: it is left without
    its end, which the listener cuts. And what broke an answer on its way is never called the client's fault (F-5).
    """
    if refusal.status < 500:
        refusal = upstream_error(refusal.message)
    exchange.status, exchange.error_code = refusal.status, refusal.kind.code or ""
    if exchange.is_mid_write:
        return
    message = refusal.message[:1].upper() + refusal.message[1:]
    await exchange.responder.write(stream_error(refusal.kind, message))
    await exchange.responder.end()


class Relay:
    """Sends a request to a replica and its answer to the client."""

    def __init__(self, pool: EnginePool, largest_answer_bytes: int = LARGEST_ANSWER_BYTES) -> None:
        self._pool = pool
        self._largest_answer_bytes = largest_answer_bytes

    async def __call__(self, exchange: Exchange, route: ReplicaRoute) -> Attempt | None:
        """Return None when the client was answered, in full or with an error inside the stream."""
        assert exchange.target is not None
        assert exchange.endpoint.operation is not None
        settings = exchange.settings
        path = f"/v1/{exchange.endpoint.operation.value}"
        headers = engine_headers(exchange.request.headers, route)
        body = engine_body(exchange, exchange.target, route)
        deadlines = Deadlines(settings.dial_s, settings.first_byte_s, settings.idle_s)
        try:
            async with self._pool.request(
                Endpoint(route.host, route.port), "POST", path, headers, body, deadlines
            ) as answer:
                attempt = await self._answer(exchange, answer)
        except UpstreamError as error:
            attempt = _broken(error)
        if exchange.is_answered:
            return None
        if attempt is None or not exchange.responder.started:
            return attempt
        await end_with_error(exchange, attempt.refusal)
        return None

    async def _answer(self, exchange: Exchange, answer: EngineAnswer) -> Attempt | None:
        assert exchange.call is not None
        if answer.status != 200:
            return _refused(answer.status, await answer.read(LARGEST_ERROR_BYTES))
        if exchange.call.is_stream:
            return await self._stream(exchange, answer)
        return await self._whole(exchange, answer)

    async def _whole(self, exchange: Exchange, answer: EngineAnswer) -> Attempt | None:
        assert exchange.call is not None
        body = await answer.read(self._largest_answer_bytes)
        try:
            if len(body) > LARGE_ANSWER_BYTES:
                read = await anyio.to_thread.run_sync(read_answer, exchange.call, exchange.asked, body)
            else:
                read = read_answer(exchange.call, exchange.asked, body)
        except NotAnAnswer as fault:
            return Attempt("garbage", upstream_error(f"{fault.reason}."))
        exchange.saw_token()
        exchange.usage = read.usage
        await _respond(exchange, read)
        return None

    async def _stream(self, exchange: Exchange, answer: EngineAnswer) -> Attempt | None:
        assert exchange.call is not None
        parser, reader = SSEParser(), StreamReader(exchange.call, exchange.asked)
        try:
            async with aclosing(answer.chunks()) as chunks:
                attempt = await self._events(exchange, chunks, parser, reader)
        finally:
            if reader.has_output or reader.is_done:
                exchange.usage = reader.usage()
        if attempt is None and not reader.is_done:
            return Attempt("truncated", upstream_error("the engine ended the stream before its end."))
        return attempt

    async def _events(
        self, exchange: Exchange, chunks: AsyncIterator[bytes], parser: SSEParser, reader: StreamReader
    ) -> Attempt | None:
        """Pass events on until the engine ends. The client has its end before the engine's: that is only waited for,
        and not long, so that the connection can be kept."""
        with anyio.CancelScope() as rest:
            async for data in chunks:
                if exchange.is_answered:
                    continue
                attempt = await self._pass_on(exchange, parser, reader, data)
                if attempt is not None:
                    return attempt
                if reader.is_done:
                    await _end(exchange)
                    rest.deadline = anyio.current_time() + DRAIN_S
        return None

    async def _pass_on(
        self, exchange: Exchange, parser: SSEParser, reader: StreamReader, data: bytes
    ) -> Attempt | None:
        """Write what became whole; events before a bad one still reach the client, in one write."""
        out: list[bytes] = []
        failed: Attempt | None = None
        try:
            for event in parser.feed(data):
                out.append(reader.feed(event))
        except EngineSaid as said:
            failed = _said(said)
        except NotAnAnswer as fault:
            failed = Attempt("garbage", upstream_error(f"{fault.reason}."))
        except SSETooLong as fault:
            failed = Attempt("flood", upstream_error(f"{fault}."))
        if reader.has_output and exchange.first_token is None:
            exchange.saw_token()
        ready = b"".join(out)
        if ready:
            if not exchange.responder.started:
                await exchange.responder.start(200, [*exchange.answer_headers(), *STREAM_HEADERS])
            exchange.is_mid_write = True
            await exchange.responder.write(ready)
            exchange.is_mid_write = False
        return failed


async def _respond(exchange: Exchange, read: Answer) -> None:
    headers = [*exchange.answer_headers(), ("content-type", "application/json")]
    await exchange.responder.respond(200, headers, read.body)
    exchange.status, exchange.is_answered = 200, True


async def _end(exchange: Exchange) -> None:
    await exchange.responder.end()
    exchange.status, exchange.is_answered = 200, True


def _broken(error: UpstreamError) -> Attempt:
    reason = error.reason.rstrip(".")
    if isinstance(error, FirstByteTimeout):
        return Attempt(
            "first_byte_timeout", timed_out(f"The engine did not answer in time: {reason}."), is_final=True
        )
    if isinstance(error, IdleTimeout):
        return Attempt("idle_timeout", timed_out(f"The engine stopped answering: {reason}."), is_final=True)
    if isinstance(error, ConnectFailed):
        return Attempt("connect", upstream_error(f"the engine could not be reached: {reason}."))
    return Attempt("broken", upstream_error(f"the engine broke off: {reason}."))


def _refused(status: int, body: bytes) -> Attempt:
    if 400 <= status < 500 and status not in OUR_FAULT:
        message = scrubbed(error_message(body) or f"The engine refused the request with status {status}.")
        return Attempt("refused", _client_refusal(status, message, body), is_final=True)
    if status == 500 and any(mark in body for mark in (*MISREAD, *CANNOT_SEE)):
        return Attempt("refused", _client_refusal(400, scrubbed(error_message(body) or ""), body), is_final=True)
    return Attempt("status", upstream_error(f"the engine answered with status {status}."))


def _said(said: EngineSaid) -> Attempt:
    if said.status is not None and 400 <= said.status < 500 and said.status not in OUR_FAULT:
        return Attempt("refused", of_status(said.status, scrubbed(said.message)), is_final=True)
    return Attempt("engine_error", upstream_error(f"the engine reported an error: {scrubbed(said.message)}"))


def _client_refusal(status: int, message: str, body: bytes) -> Refusal:
    """Return what an engine refused. Too long a prompt has a code of its own, however the engine words it (S-6)."""
    if status == 400 and any(mark in body for mark in TOO_LONG):
        return Refusal(CONTEXT_LENGTH_EXCEEDED, message)
    if any(mark in body for mark in CANNOT_SEE):
        return Refusal(UNSUPPORTED_CAPABILITY, message)
    return of_status(status, message)
