"""An engine that misbehaves on cue: for tests of what stands in front of one.

It imitates the HTTP of llama.cpp's llama-server as far as a gateway sees it (chat, completions, embeddings, models,
health, metrics), on real sockets, and writes its bytes itself, so that it can also write wrong ones. A test gives it
acts, one per request in order; without one it answers well. A caller that hangs up ends the act at once, and
`running` says how many acts are on stage, like the gauge of a real engine.
"""

import json
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import trio

MODEL = "tiny"
LARGEST_HEAD_BYTES = 65_536


class Received(msgspec.Struct):
    """One request as the engine got it. `headers` has lower-case names."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body decoded."""
        return json.loads(self.body)

    @property
    def is_stream(self) -> bool:
        """Whether a stream was asked for."""
        return bool(self.body and self.json.get("stream"))


class Stage:
    """What an act may do: send bytes, or wait."""

    def __init__(self, stream: trio.abc.Stream, request: Received) -> None:
        self.stream = stream
        self.request = request
        self.is_complete = False

    async def send(self, data: bytes) -> None:
        """Write bytes as they are."""
        await self.stream.send_all(data)

    async def whole(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        """Write a complete answer."""
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
        await self.send(head.encode() + body)
        self.is_complete = True

    async def head(self, status: int = 200, content_type: str = "text/event-stream") -> None:
        """Write the head of a chunked answer."""
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
        await self.send(head.encode())

    async def chunk(self, data: bytes) -> None:
        """Write one chunk."""
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def end(self) -> None:
        """Write the last chunk."""
        await self.send(b"0\r\n\r\n")
        self.is_complete = True

    async def event(self, value: Any) -> None:
        """Write one SSE event as one chunk."""
        await self.chunk(b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n")


Act = Callable[[Stage], Awaitable[None]]
WORDS = ("Hello", " there", ",", " friend")


def delta(text: str, model: str = MODEL) -> dict[str, Any]:
    """Return one chat chunk with text."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}],
    }


def last(model: str = MODEL) -> dict[str, Any]:
    """Return the chunk that says why the answer ended."""
    return {**delta("", model), "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def usage_chunk(prompt: int, completion: int, model: str = MODEL) -> dict[str, Any]:
    """Return the usage-only chunk."""
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {**delta("", model), "choices": [], "usage": usage}


def answers(words: Sequence[str] = WORDS, prompt_tokens: int = 5) -> Act:
    """Answer well: streamed with usage when asked for it, else whole."""

    async def act(stage: Stage) -> None:
        if stage.request.path.endswith("/embeddings"):
            await stage.whole(200, _embeddings(prompt_tokens))
        elif not stage.request.is_stream:
            await stage.whole(200, _whole(stage.request, "".join(words), prompt_tokens, len(words)))
        else:
            await stage.head()
            for word in words:
                await stage.event(delta(word))
            await stage.event(last())
            if (stage.request.json.get("stream_options") or {}).get("include_usage"):
                await stage.event(usage_chunk(prompt_tokens, len(words)))
            await stage.chunk(b"data: [DONE]\n\n")
            await stage.end()

    return act


def _whole(request: Received, text: str, prompt: int, completion: int) -> bytes:
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    if request.path.endswith("/chat/completions"):
        choice["message"] = {"role": "assistant", "content": text}
    else:
        choice["text"] = text
    answer = {
        "id": "cmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [choice],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        },
    }
    return json.dumps(answer, ensure_ascii=False).encode()


def _embeddings(prompt: int) -> bytes:
    data = [{"object": "embedding", "index": 0, "embedding": [0.5, -0.25]}]
    usage = {"prompt_tokens": prompt, "total_tokens": prompt}
    return json.dumps({"object": "list", "data": data, "model": MODEL, "usage": usage}).encode()


def says(status: int, message: str) -> Act:
    """Answer an error in OpenAI's shape."""

    async def act(stage: Stage) -> None:
        await stage.whole(
            status, json.dumps({"error": {"code": status, "message": message, "type": "x"}}).encode()
        )

    return act


def sends(data: bytes, content_type: str = "application/json") -> Act:
    """Answer 200 with these bytes."""

    async def act(stage: Stage) -> None:
        await stage.whole(200, data, content_type)

    return act


async def dies_before_its_first_byte(stage: Stage) -> None:
    """Take the request and close."""


async def dies_in_its_head(stage: Stage) -> None:
    """Close within the answer's head."""
    await stage.send(b"HTTP/1.1 200 OK\r\ncontent-ty")


async def dies_after_its_head(stage: Stage) -> None:
    """Close between the answer's head and its first byte."""
    await stage.head()


def dies_after(words: int) -> Act:
    """Close after some words, in the middle of a stream."""

    async def act(stage: Stage) -> None:
        await stage.head()
        for _ in range(words):
            await stage.event(delta("word "))

    return act


async def dies_within_a_whole_answer(stage: Stage) -> None:
    """Close before all of the announced length is there."""
    await stage.send(
        b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n{"choices":['
    )


async def hangs(stage: Stage) -> None:
    """Never say a word."""
    await trio.sleep_forever()


def hangs_after(words: int) -> Act:
    """Stop after some words and keep the connection open."""

    async def act(stage: Stage) -> None:
        await stage.head()
        for _ in range(words):
            await stage.event(delta("word "))
        await trio.sleep_forever()

    return act


async def closes_without_done(stage: Stage) -> None:
    """End a stream in due form, but without [DONE]."""
    await stage.head()
    await stage.event(delta("word "))
    await stage.end()


def breaks_its_chunks(first_arrived: trio.Event) -> Act:
    """Write one good event and, once told that it arrived, a chunk whose size is no number."""

    async def act(stage: Stage) -> None:
        await stage.head()
        await stage.event(delta("word "))
        await first_arrived.wait()
        await stage.send(b"zz\r\nwhat is this\r\n")
        await trio.sleep_forever()

    return act


async def floods_one_event(stage: Stage) -> None:
    """Write an event that does not end."""
    await stage.head()
    await stage.event(delta("word "))
    await stage.chunk(b"data: ")
    while True:
        await stage.chunk(b"x" * 65_536)


async def streams_garbage(stage: Stage) -> None:
    """Write an event that is not JSON as the first one."""
    await stage.head()
    await stage.chunk(b"data: <html>oops</html>\n\n")
    await stage.end()


def streams_an_error(status: int, message: str, after: int) -> Act:
    """Write some words and then an error event, as llama.cpp does."""

    async def act(stage: Stage) -> None:
        await stage.head()
        for _ in range(after):
            await stage.event(delta("word "))
        await stage.event({"error": {"code": status, "message": message, "type": "server_error"}})
        await stage.end()

    return act


def byte_by_byte(words: Sequence[str]) -> Act:
    """Answer a stream in chunks of one byte each."""

    async def act(stage: Stage) -> None:
        await stage.head()
        for value in [*map(delta, words), last()]:
            for byte in b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n":
                await stage.chunk(bytes([byte]))
        for byte in b"data: [DONE]\n\n":
            await stage.chunk(bytes([byte]))
        await stage.end()

    return act


class FakeEngine:
    """One engine. `port` is known once `serve` has started."""

    def __init__(self, *acts: Act) -> None:
        self.acts: deque[Act] = deque(acts)
        self.usual: Act = answers()
        self.received: list[Received] = []
        self.running = 0
        self.connections = 0
        self.port = 0
        self.metrics: bytes | None = None
        self._moved = trio.Event()

    async def serve(
        self, *, task_status: trio.TaskStatus[list[trio.SocketListener]] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Answer on a free loopback port until cancelled."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        await trio.serve_listeners(self._connection, listeners, task_status=task_status)

    async def until(self, fact: Callable[[], bool]) -> None:
        """Wait until a fact about this engine holds."""
        while not fact():
            await self._moved.wait()

    def _move(self) -> None:
        self._moved.set()
        self._moved = trio.Event()

    async def _connection(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        held = b""
        try:
            async with stream:
                while True:
                    request, held = await _read(stream, held)
                    if request is None or not await self._perform(stream, request):
                        return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
        finally:
            self.connections -= 1
            self._move()

    async def _perform(self, stream: trio.SocketStream, request: Received) -> bool:
        stage = Stage(stream, request)
        if request.method == "GET":
            await self._page(stage)
            return True
        self.received.append(request)
        act = self.acts.popleft() if self.acts else self.usual
        self.running += 1
        self._move()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_hang_up, stream, nursery.cancel_scope)
                await act(stage)
                nursery.cancel_scope.cancel()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.running -= 1
            self._move()
        return stage.is_complete

    async def _page(self, stage: Stage) -> None:
        if stage.request.path == "/metrics":
            page = self.metrics
            if page is None:
                page = b"llamacpp:requests_processing %d\nllamacpp:requests_deferred 0\n" % self.running
            await stage.whole(200, page, "text/plain")
        else:
            await stage.whole(200, b'{"status":"ok"}')


async def _until_hang_up(stream: trio.SocketStream, scope: trio.CancelScope) -> None:
    """End the act when the caller hangs up. Only looks: bytes that are there belong to the next request."""
    try:
        if await stream.socket.recv(1, socket.MSG_PEEK):
            return
    except OSError:
        pass
    scope.cancel()


async def _read(stream: trio.SocketStream, held: bytes) -> tuple[Received | None, bytes]:
    while b"\r\n\r\n" not in held:
        data = await stream.receive_some(65_536)
        if not data or len(held) > LARGEST_HEAD_BYTES:
            return None, b""
        held += data
    head, _, rest = held.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    length = int(headers.get("content-length", "0"))
    while len(rest) < length:
        data = await stream.receive_some(65_536)
        if not data:
            return None, b""
        rest += data
    return Received(method, path, headers, rest[:length]), rest[length:]
