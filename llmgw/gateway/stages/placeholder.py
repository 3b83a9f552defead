"""Step 4, beside the names: `<model-name>` left in from documentation is answered with the names there are (S-5).

It is an answer of the API called, so whatever client sent it shows it to whoever forgot to fill it in.
"""

from typing import Any

import msgspec

from llmgw.gateway.exchange import STREAM_HEADERS, Exchange
from llmgw.gateway.names import PLACEHOLDER, Names
from llmgw.gateway.stages.resolve import names_for
from llmgw.wire.canonical import Operation
from llmgw.wire.sse import encode


def is_placeholder(exchange: Exchange) -> bool:
    """Return whether the model is the placeholder, on an endpoint that has a text to answer with."""
    return exchange.asked == PLACEHOLDER and exchange.endpoint.operation is not Operation.EMBEDDINGS


async def answer_placeholder(exchange: Exchange, names: Names) -> None:
    """Answer with the models this caller may use."""
    listed = names_for(exchange, names)
    text = "Name a model instead of <model-name>. " + (
        f"You may use: {', '.join(listed)}." if listed else "No model is served here yet."
    )
    assert exchange.call is not None
    exchange.status = 200
    if not exchange.call.is_stream:
        headers = [*exchange.answer_headers(), ("content-type", "application/json")]
        await exchange.responder.respond(200, headers, msgspec.json.encode(_whole(exchange, text)))
        return
    chunks = [_chunk(exchange, text, None), _chunk(exchange, "", "stop")]
    events = b"".join(encode(msgspec.json.encode(chunk)) for chunk in chunks) + b"data: [DONE]\n\n"
    await exchange.responder.start(200, [*exchange.answer_headers(), *STREAM_HEADERS])
    await exchange.responder.write(events)
    await exchange.responder.end()


def _frame(exchange: Exchange, kind: str, choice: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": f"llmgw-{exchange.request_id}",
        "object": kind,
        "created": int(exchange.started_unix),
        "model": PLACEHOLDER,
        "choices": [{"index": 0, **choice}],
    }


def _whole(exchange: Exchange, text: str) -> dict[str, Any]:
    usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    if exchange.endpoint.operation is Operation.CHAT:
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {**_frame(exchange, "chat.completion", choice), "usage": usage}
    return {**_frame(exchange, "text_completion", {"text": text, "finish_reason": "stop"}), "usage": usage}


def _chunk(exchange: Exchange, text: str, finish: str | None) -> dict[str, Any]:
    if exchange.endpoint.operation is Operation.CHAT:
        delta = {"role": "assistant", "content": text} if text else {}
        return _frame(exchange, "chat.completion.chunk", {"delta": delta, "finish_reason": finish})
    return _frame(exchange, "text_completion", {"text": text, "finish_reason": finish})
