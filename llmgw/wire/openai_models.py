"""`GET /v1/models`: the models a key may use, in OpenAI's shape with our extra members (S-24)."""

from collections.abc import Sequence

import msgspec


class Capabilities(msgspec.Struct, frozen=True):
    """What a model can do beyond text."""

    tools: bool = False
    vision: bool = False
    embeddings: bool = False


class ModelEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One model. `created` in Unix seconds; `parent` is an adapter's base; sizes in tokens, left out when unknown."""

    id: str
    created: int
    ready: bool
    capabilities: Capabilities = Capabilities()
    context_length: int = 0
    max_output_tokens: int = 0
    parent: str = ""
    owned_by: str = "llmgw"


def model_object(entry: ModelEntry) -> bytes:
    """Return the JSON of one model."""
    return msgspec.json.encode(_plain(entry))


def models_list(entries: Sequence[ModelEntry]) -> bytes:
    """Return the JSON of the list."""
    return msgspec.json.encode({"object": "list", "data": [_plain(entry) for entry in entries]})


def _plain(entry: ModelEntry) -> dict[str, object]:
    plain: dict[str, object] = {
        "id": entry.id,
        "object": "model",
        "created": entry.created,
        "owned_by": entry.owned_by,
        "ready": entry.ready,
        "capabilities": entry.capabilities,
    }
    optional = {
        "context_length": entry.context_length,
        "max_output_tokens": entry.max_output_tokens,
        "parent": entry.parent,
    }
    return plain | {name: value for name, value in optional.items() if value}
