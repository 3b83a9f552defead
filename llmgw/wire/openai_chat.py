"""OpenAI's chat, completions and embeddings: a body read shallowly, and written for an engine (S-21 to S-23).

Only members that llmgw owns or needs are decoded. Every other one stays the bytes the client wrote, so an option nobody
here has heard of reaches the engine as it was. What is written for the engine is always put together anew from the
members, though: a member written twice would otherwise be read once here and once differently there.
"""

import array
import base64
import re
import sys
from collections.abc import Sequence
from typing import Any, TypeVar, cast

import msgspec

from llmgw.wire.canonical import BadRequest, Call, Operation, Usage
from llmgw.wire.jsonbounds import MAX_DEPTH, is_too_deep, utf8_fault

T = TypeVar("T")
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_INPUT = {Operation.CHAT: "messages", Operation.COMPLETIONS: "prompt", Operation.EMBEDDINGS: "input"}
_OWNED = ("model", "user", "metadata", "lora", "llmgw")
_BYTE = re.compile(r" \(byte (\d+)\)$")
_BYTES_PER_TOKEN = 4


def parse(operation: Operation, body: bytes) -> Call:
    """Return the call a body makes. Raises BadRequest naming the member, or the offset of what is not JSON (S-10)."""
    fields = _fields(body)
    model = _take(fields, "model", str)
    if not model:
        raise BadRequest("`model` is missing: name the model as text", param="model")
    needed = _INPUT[operation]
    if needed not in fields or bytes(fields[needed]) == b"null":
        raise BadRequest(f"`{needed}` is missing", param=needed)
    if operation is Operation.CHAT and not bytes(fields[needed]).startswith(b"["):
        raise BadRequest("`messages` must be a list of messages", param="messages")
    call = Call(
        operation=operation,
        model=model,
        is_stream=operation is not Operation.EMBEDDINGS and bool(_take(fields, "stream", bool)),
        fields=fields,
        wants_usage=_wants_usage(fields),
        output_cap=_output_cap(fields),
        wants_base64=_take(fields, "encoding_format", str) == "base64" if operation is Operation.EMBEDDINGS else False,
        end_user=_take(fields, "user", str) or "",
        tags=_tags(fields),
    )
    for name in [name for name in fields if name in _OWNED or name.startswith("llmgw.")]:
        del fields[name]
    return call


def _fields(body: bytes) -> dict[str, msgspec.Raw]:
    if (offset := utf8_fault(body)) is not None:
        raise BadRequest(f"the body is not UTF-8: see byte {offset}")
    if is_too_deep(body):
        raise BadRequest(f"the body nests deeper than {MAX_DEPTH} levels")
    try:
        return _FIELDS.decode(body)
    except msgspec.ValidationError:
        raise BadRequest("the body must be a JSON object") from None
    except msgspec.DecodeError as error:
        raise BadRequest(_json_fault(str(error), len(body))) from None


def _json_fault(message: str, size: int) -> str:
    found = _BYTE.search(message)
    if found is None:
        return f"the body is not JSON: it ends too early, or a text in it has half of a surrogate pair (byte {size})"
    return f"the body is not JSON: {_BYTE.sub('', message).removeprefix('JSON is malformed: ')} at byte {found[1]}"


_OBJECT = dict[str, Any]
_KINDS: dict[Any, str] = {str: "text", bool: "true or false", int: "a whole number", _OBJECT: "an object"}


def _take(fields: dict[str, msgspec.Raw], name: str, kind: type[T]) -> T | None:
    """Return a member decoded, None when it is absent or null. Raises BadRequest when it is of another kind."""
    raw = fields.get(name)
    if raw is None or bytes(raw) == b"null":
        return None
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError:
        raise BadRequest(f"`{name}` must be {_KINDS[kind]}", param=name) from None


def _wants_usage(fields: dict[str, msgspec.Raw]) -> bool:
    options = _take(fields, "stream_options", _OBJECT) if "stream_options" in fields else None
    return bool(options and options.get("include_usage") is True)


def _output_cap(fields: dict[str, msgspec.Raw]) -> int:
    if "max_tokens" not in fields and "max_completion_tokens" not in fields:
        return 0
    caps = [_take(fields, name, int) for name in ("max_completion_tokens", "max_tokens")]
    for name, cap in zip(("max_completion_tokens", "max_tokens"), caps, strict=True):
        if cap is not None and cap < 0:
            raise BadRequest(f"`{name}` must not be negative", param=name)
    return next((cap for cap in caps if cap), 0)


def _tags(fields: dict[str, msgspec.Raw]) -> dict[str, str]:
    if "metadata" not in fields:
        return {}
    metadata = _take(fields, "metadata", _OBJECT) or {}
    return {key: value for key, value in metadata.items() if isinstance(value, str)}


def upstream_body(
    call: Call, served_name: str, *, inject_usage: bool, lora: Sequence[tuple[int, float]] | None = None
) -> bytes:
    """Return the body an engine gets: its own name of the model, usage asked for on streams (S-18).

    `lora` are llama.cpp's adapter ids and scales (S-54); None sends no such member.
    """
    fields: dict[str, Any] = {"model": served_name, **call.fields}
    if call.is_stream and inject_usage and not call.wants_usage:
        options = _take(call.fields, "stream_options", _OBJECT) or {}
        fields["stream_options"] = {**options, "include_usage": True}
    if lora is not None:
        fields["lora"] = [{"id": adapter, "scale": scale} for adapter, scale in lora]
    return msgspec.json.encode(fields)


def estimate_prompt_tokens(call: Call) -> int:
    """Return the prompt's tokens at one per 4 bytes, for where no engine counted them (S-16)."""
    return max(1, len(bytes(call.fields[_INPUT[call.operation]])) // _BYTES_PER_TOKEN)


class EngineUsage(msgspec.Struct):
    """The `usage` member of answers, as engines write it; any part may be missing or null."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None

    def tokens(self, operation: Operation) -> Usage:
        """Return it as ours. Embeddings have no completion; some engines give their total only."""
        prompt = self.prompt_tokens if self.prompt_tokens is not None else 0
        if operation is Operation.EMBEDDINGS:
            return Usage(prompt or self.total_tokens or 0, 0)
        return Usage(prompt, self.completion_tokens or 0)


class NotAnAnswer(Exception):
    """An engine's 200 whose body is no answer of this API. `reason` never quotes the body."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Answer(msgspec.Struct, frozen=True):
    """An unstreamed answer as the client gets it, and what it cost in tokens."""

    body: bytes
    usage: Usage


def read_answer(call: Call, answer_name: str, body: bytes) -> Answer:
    """Return an engine's unstreamed answer with `model` set to the name the client is to see. Raises NotAnAnswer."""
    try:
        fields: dict[str, Any] = {**_FIELDS.decode(body)}
        usage = msgspec.json.decode(fields.get("usage", b"null"), type=EngineUsage | None)
    except (msgspec.DecodeError, RecursionError):
        raise NotAnAnswer("the engine's answer is not a JSON object as this API has it") from None
    expected = "data" if call.operation is Operation.EMBEDDINGS else "choices"
    if not bytes(fields.get(expected, b"")).startswith(b"["):
        raise NotAnAnswer(f"the engine's answer has no `{expected}`")
    fields["model"] = answer_name
    if call.wants_base64:
        fields["data"] = _vectors_in_base64(fields["data"])
    return Answer(msgspec.json.encode(fields), _usage_or_estimate(call, usage, fields.get(expected, b"")))


def _usage_or_estimate(call: Call, usage: EngineUsage | None, output: Any) -> Usage:
    if usage is not None:
        return usage.tokens(call.operation)
    if call.operation is Operation.EMBEDDINGS:
        return Usage(estimate_prompt_tokens(call), 0, is_estimated=True)
    completion = max(1, len(bytes(output)) // _BYTES_PER_TOKEN)
    return Usage(estimate_prompt_tokens(call), completion, is_estimated=True)


def _vectors_in_base64(data: msgspec.Raw) -> list[dict[str, Any]]:
    """Return embedding entries with their vectors as base64 of little-endian 32-bit floats (S-23)."""
    try:
        entries = msgspec.json.decode(data, type=list[dict[str, msgspec.Raw]])
        return [{**entry, "embedding": _base64(entry["embedding"])} for entry in entries]
    except (msgspec.DecodeError, KeyError):
        raise NotAnAnswer("the engine's answer has an entry without an embedding") from None


def _base64(vector: msgspec.Raw) -> Any:
    if bytes(vector).startswith(b'"'):
        return vector
    floats = array.array("f", msgspec.json.decode(vector, type=list[float]))
    if sys.byteorder == "big":
        floats.byteswap()
    return base64.b64encode(floats.tobytes()).decode("ascii")


def error_message(body: bytes) -> str | None:
    """Return the message of an engine's error body, None where it has none.

    Known shapes: {"error": {"message": M}} (OpenAI, llama.cpp), {"error": M}, {"message": M} (vLLM before 0.9),
    {"detail": M or a list of {"msg": M}} (FastAPI).
    """
    try:
        found = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return None
    return message_of(found.get("error")) or message_of(found.get("detail")) or message_of(found)


def message_of(value: Any) -> str | None:
    """Return the message in one of the shapes an engine's error has, None for any other value."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, list) and value:
        return message_of(cast("list[Any]", value)[0])
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        return message_of(found.get("message")) or message_of(found.get("msg"))
    return None
