"""A call as one engine wants it: the one place where engines differ per request (S-56, S-54).

The client's key never travels; the replica's own does, and the trace context. No other header of a client reaches an
engine.
"""

from llmgw.gateway.exchange import Exchange
from llmgw.gateway.names import Target
from llmgw.net.http_message import Headers
from llmgw.ports import ReplicaRoute
from llmgw.wire.openai_chat import upstream_body

TRACE_HEADERS = ("traceparent", "tracestate")


def engine_headers(client: Headers, route: ReplicaRoute) -> list[tuple[str, str]]:
    """Return the headers a request travels to an engine with."""
    headers = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")]
    if route.api_key:
        headers.append(("authorization", f"Bearer {route.api_key}"))
    for name in TRACE_HEADERS:
        value = client.get(name)
        if value is not None:
            headers.append((name, value))
    return headers


def engine_body(exchange: Exchange, target: Target, route: ReplicaRoute) -> bytes:
    """Return the body for one replica: the engine's name of the model, usage asked for, the adapter in its way."""
    assert exchange.call is not None
    name, lora = route.served_name, None
    if target.adapter is not None:
        if route.engine == "llamacpp":
            lora = [(target.adapter, _scale(target, target.adapter))]
        else:
            name = target.name
    return upstream_body(exchange.call, name, inject_usage=exchange.settings.inject_usage, lora=lora)


def _scale(target: Target, adapter: int) -> float:
    scales = target.model.adapter_scales
    return scales[adapter] if adapter < len(scales) else 1.0
