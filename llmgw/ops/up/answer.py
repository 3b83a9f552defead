"""The first answer: a request through the client listener, its words printed as they arrive."""

import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any

from llmgw.config.refusal import Refused

_LIMIT_S = 600
CHAT_QUESTION = "Say in one sentence what you can do."
TEXT_TO_CONTINUE = "The sun rises in the east and"


def stream_first_answer(port: int, key: str, model: str, continues_text: bool, write: Callable[[str], object]) -> int:
    """Ask `model` once over `127.0.0.1:port` and hand each piece of text to `write`. Returns the characters received.

    Raises Refused with the server's own sentence when it does not answer.
    """
    path, body = _request(model, continues_text)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_LIMIT_S)
    try:
        connection.request(
            "POST", path, json.dumps(body), {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        if answer.status != 200:
            raise Refused(500, f"the first request was answered {answer.status}: {_sentence(answer.read())}")
        received = 0
        for piece in _pieces(answer, continues_text):
            write(piece)
            received += len(piece)
        return received
    except OSError as error:
        raise Refused(500, f"the first request broke off: {error}") from None
    finally:
        connection.close()


def _request(model: str, continues_text: bool) -> tuple[str, dict[str, Any]]:
    common = {"model": model, "stream": True, "max_tokens": 48, "temperature": 0}
    if continues_text:
        # A base model has no end of its own and would repeat itself; a line is enough to see it write.
        return "/v1/completions", common | {"prompt": TEXT_TO_CONTINUE, "stop": ["\n"]}
    return "/v1/chat/completions", common | {"messages": [{"role": "user", "content": CHAT_QUESTION}]}


def _pieces(answer: http.client.HTTPResponse, continues_text: bool) -> Iterator[str]:
    while line := answer.readline():
        text = line.strip()
        if text == b"data: [DONE]":
            return
        if not text.startswith(b"data: "):
            continue
        event = json.loads(text[6:])
        if "error" in event:
            raise Refused(500, f"the first answer broke off: {event['error'].get('message', 'no reason given')}")
        for choice in event.get("choices", ()):
            piece = choice.get("text") if continues_text else choice.get("delta", {}).get("content")
            if piece:
                yield piece
    raise Refused(500, "the first answer ended without its last event")


def _sentence(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")
