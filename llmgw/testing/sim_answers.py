"""What the simulated engine says: OpenAI's documents for chat, completions, embeddings and token counts. Pure.

A word is a token. The answer repeats the question, so that a test can tell whose answer it got; with tools given it is
a call of the first one with the question as its argument.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

PREFIX = "Simulated answer to:"
MAX_MODEL_LEN = 8192
_DIMENSIONS = 16


class BadRequest(Exception):
    """A body this engine cannot answer; the text goes into a 400."""


@dataclass(frozen=True)
class Question:
    """One generation request: its words, what to answer, and how."""

    kind: str
    model: str
    prompt_tokens: int
    words: tuple[str, ...]
    tool: str
    argument: str
    is_stream: bool
    wants_usage: bool
    finish_reason: str

    @property
    def id(self) -> str:
        """A stable id of the answer."""
        seed = f"{self.kind}{self.model}{self.argument}".encode()
        return f"{'chatcmpl' if self.kind == 'chat' else 'cmpl'}-{hashlib.sha256(seed).hexdigest()[:24]}"

    @property
    def usage(self) -> dict[str, int]:
        """The usage object."""
        done = len(self.words)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": done,
            "total_tokens": self.prompt_tokens + done,
        }


def read_question(kind: str, body: bytes, served: str) -> Question:
    """Read a request to /v1/chat/completions (`chat`) or /v1/completions (`text`). Raises BadRequest."""
    asked = read_object(body)
    asked_model = asked.get("model") or served
    if asked_model != served:
        raise BadRequest(f"The model `{asked_model}` does not exist.")
    text, prompt_tokens = _chat_text(asked) if kind == "chat" else _prompt_text(asked)
    limit = asked.get("max_completion_tokens") or asked.get("max_tokens") or 512
    words = tuple(f"{PREFIX} {text}".split())
    options = asked.get("stream_options")
    tool = _first_tool(asked) if kind == "chat" else ""
    return Question(
        kind=kind,
        model=served,
        prompt_tokens=prompt_tokens,
        words=words[: int(limit)],
        tool=tool,
        argument=text,
        is_stream=asked.get("stream") is True,
        wants_usage=isinstance(options, dict) and options.get("include_usage") is True,
        finish_reason="tool_calls" if tool else ("length" if len(words) > int(limit) else "stop"),
    )


def read_object(body: bytes) -> Mapping[str, Any]:
    """Return a JSON object. Raises BadRequest."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest("The body is not JSON.") from None
    if not isinstance(found, dict):
        raise BadRequest("The body is not a JSON object.")
    return found


def _chat_text(asked: Mapping[str, Any]) -> tuple[str, int]:
    messages = asked.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a list with at least one message.")
    texts = [_content_text(message.get("content")) for message in messages if isinstance(message, dict)]
    users = [
        _content_text(message.get("content"))
        for message in messages
        if isinstance(message, dict) and message.get("role") == "user"
    ]
    return (users or texts or [""])[-1], sum(count_tokens(text) for text in texts)


def _content_text(content: Any) -> str:
    if isinstance(content, list):
        parts = [str(part.get("text", "")) for part in content if isinstance(part, dict)]
        return " ".join(part for part in parts if part)
    return content if isinstance(content, str) else ""


def _prompt_text(asked: Mapping[str, Any]) -> tuple[str, int]:
    prompt = asked.get("prompt", "")
    text = " ".join(str(item) for item in prompt) if isinstance(prompt, list) else str(prompt)
    return text, count_tokens(text)


def _first_tool(asked: Mapping[str, Any]) -> str:
    tools = asked.get("tools")
    if not isinstance(tools, list) or not tools or asked.get("tool_choice") == "none":
        return ""
    function = tools[0].get("function", {}) if isinstance(tools[0], dict) else {}
    return str(function.get("name", "tool"))


def count_tokens(text: str) -> int:
    """Return how many words a text has."""
    return len(text.split())


def whole_answer(question: Question) -> dict[str, Any]:
    """Return the answer of a request that did not stream."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": question.finish_reason}
    if question.kind == "chat":
        calls = {"tool_calls": [_tool_call(question)]} if question.tool else {}
        content = None if question.tool else " ".join(question.words)
        choice["message"] = {"role": "assistant", "content": content, **calls}
    else:
        choice["text"] = " ".join(question.words)
    return {**_head(question, ""), "choices": [choice], "usage": question.usage}


def events(question: Question) -> Iterator[tuple[bytes, bool]]:
    """Yield a streamed answer's server-sent events, and whether each is a token."""
    if question.kind == "chat":
        yield _event(question, {"role": "assistant", "content": ""}, None), False
    if question.tool:
        call = {**_tool_call(question), "index": 0}
        yield _event(question, {"tool_calls": [call]}, None), True
    for at, word in enumerate(question.words if not question.tool else ()):
        yield _event(question, {"content": word if at == 0 else f" {word}"}, None), True
    yield _event(question, {}, question.finish_reason), False
    if question.wants_usage:
        last = {**_head(question, ".chunk"), "choices": [], "usage": question.usage}
        yield _data(json.dumps(last)), False
    yield _data("[DONE]"), False


def _event(question: Question, delta: dict[str, Any], finish_reason: str | None) -> bytes:
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish_reason}
    if question.kind == "chat":
        choice["delta"] = delta
    else:
        choice["text"] = delta.get("content", "")
    return _data(json.dumps({**_head(question, ".chunk"), "choices": [choice]}))


def _data(text: str) -> bytes:
    return f"data: {text}\n\n".encode()


def _head(question: Question, suffix: str) -> dict[str, Any]:
    kind = f"chat.completion{suffix}" if question.kind == "chat" else "text_completion"
    return {"id": question.id, "object": kind, "created": 0, "model": question.model}


def _tool_call(question: Question) -> dict[str, Any]:
    arguments = json.dumps({"input": question.argument})
    return {
        "id": f"call_{question.id[-12:]}",
        "type": "function",
        "function": {"name": question.tool, "arguments": arguments},
    }


def embeddings(body: bytes, served: str) -> dict[str, Any]:
    """Return the answer to /v1/embeddings: equal texts have equal vectors. Raises BadRequest."""
    asked = read_object(body)
    given = asked.get("input", "")
    texts = [str(item) for item in given] if isinstance(given, list) else [str(given)]
    size = int(asked.get("dimensions") or _DIMENSIONS)
    rows = [
        {"object": "embedding", "index": index, "embedding": _vector(text, size)} for index, text in enumerate(texts)
    ]
    used = sum(count_tokens(text) for text in texts)
    return {
        "object": "list",
        "model": served,
        "data": rows,
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }


def _vector(text: str, size: int) -> list[float]:
    raw = hashlib.shake_256(text.encode()).digest(size)
    length = sum((byte - 127.5) ** 2 for byte in raw) ** 0.5 or 1.0
    return [round((byte - 127.5) / length, 6) for byte in raw]


def tokenized(body: bytes) -> dict[str, Any]:
    """Return the answer to /tokenize, in vLLM's shape: a token per word. Raises BadRequest."""
    asked = read_object(body)
    text = _chat_text(asked)[0] if "messages" in asked else str(asked.get("prompt", ""))
    numbers = [int.from_bytes(hashlib.sha256(word.encode()).digest()[:2], "big") for word in text.split()]
    return {"count": len(numbers), "max_model_len": MAX_MODEL_LEN, "tokens": numbers}
