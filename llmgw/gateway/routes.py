"""The path table of the client API: what exists, and with which method.

It is the list of S-2 as far as it exists. A path under `/v1` that is not in it is refused in OpenAI's shape, so that
an SDK shows the sentence; a method that is not, with `Allow`.
"""

from collections.abc import Mapping
from enum import Enum
from urllib.parse import unquote

import msgspec

from llmgw.gateway.refusals import Refusal, unknown_path, wrong_method
from llmgw.wire.canonical import Operation


class Kind(Enum):
    """What answers a path."""

    GENERATE = "generate"
    MODELS = "models"
    MODEL = "model"
    HEALTH = "health"
    READY = "ready"
    LEADER = "leader"


class Endpoint(msgspec.Struct, frozen=True):
    """One entry of the table. `name` is the usage row's `endpoint` (T-34); `operation` what a generating one asks of a model."""

    kind: Kind
    name: str
    methods: tuple[str, ...]
    operation: Operation | None = None


CHAT = Endpoint(Kind.GENERATE, "chat.completions", ("POST",), Operation.CHAT)
COMPLETIONS = Endpoint(Kind.GENERATE, "completions", ("POST",), Operation.COMPLETIONS)
EMBEDDINGS = Endpoint(Kind.GENERATE, "embeddings", ("POST",), Operation.EMBEDDINGS)

TABLE: Mapping[str, Endpoint] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": COMPLETIONS,
    "/v1/embeddings": EMBEDDINGS,
    "/v1/models": Endpoint(Kind.MODELS, "models", ("GET",)),
    "/health": Endpoint(Kind.HEALTH, "health", ("GET", "HEAD")),
    "/ready": Endpoint(Kind.READY, "ready", ("GET", "HEAD")),
    "/leader": Endpoint(Kind.LEADER, "leader", ("GET", "HEAD")),
}
MODEL = Endpoint(Kind.MODEL, "models", ("GET",))
MODEL_PREFIX = "/v1/models/"


def route(method: str, path: str) -> Endpoint | Refusal:
    """Return the endpoint of a request, or why there is none."""
    endpoint = TABLE.get(path)
    if endpoint is None and path.startswith(MODEL_PREFIX) and len(path) > len(MODEL_PREFIX):
        endpoint = MODEL
    if endpoint is None:
        return unknown_path(path)
    if method not in endpoint.methods:
        return wrong_method(method, path, ", ".join(endpoint.methods))
    return endpoint


def model_id(path: str) -> str:
    """Return the model id of a `/v1/models/...` path; ids may hold slashes, escaped or not."""
    return unquote(path[len(MODEL_PREFIX) :])
