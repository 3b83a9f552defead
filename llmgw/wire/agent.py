"""The agent protocol's bytes, and the one place its names are imported from (20 sections 3 and 4). No sockets here.

Messages are msgpack documents of the structs of `agent_messages`; their frames are `agent_frames`. Everything received
is hostile until decoded: whatever the bytes, decoding ends in a message, in UnknownTag or in BadMessage, never in
another exception (X-10).
"""

import re
from typing import Any

import msgspec
from msgspec import Struct

from llmgw.wire.agent_messages import (
    NODE_ID_PATTERN,
    AgentMessage,
    Bye,
    Command,
    Control,
    ControlPlanes,
    DrainShard,
    Heartbeat,
    LogsReply,
    LogsRequest,
    Register,
    Registered,
    RemoveWeights,
    ShardStatus,
    StartShard,
    StopShard,
)
from llmgw.wire.agent_structs import (
    GPU,
    HCA,
    IMEX,
    CachedWeight,
    Compute,
    EngineProfile,
    FabricAttachment,
    FetchProgress,
    GPUProblem,
    GPUSensor,
    LoraAdapter,
    MIGDevice,
    NodeLoad,
    ProvisionStatus,
    RunningShard,
    ShardId,
    ShardLoad,
    ShardState,
)

__all__ = [
    "CONNECT_PATH", "CONTENT_TYPE", "GPU", "HCA", "IMEX", "PROTOCOL", "AgentMessage", "BadMessage", "Bye",
    "CachedWeight", "Command", "Compute", "Control", "ControlPlanes", "DrainShard", "EngineProfile",
    "FabricAttachment", "FetchProgress", "GPUProblem", "GPUSensor", "Heartbeat", "LogsReply", "LogsRequest",
    "LoraAdapter", "MIGDevice", "NodeLoad", "ProvisionStatus", "Register", "Registered", "RemoveWeights",
    "RunningShard", "ShardId", "ShardLoad", "ShardState", "ShardStatus", "StartShard", "StopShard", "UnknownTag",
    "decode_agent", "decode_control", "encode", "is_node_id",
]  # fmt: skip

PROTOCOL = "1"
"""Version of the framing, sent as `llmgw-protocol`; it changes for nothing else (P-41)."""

CONTENT_TYPE = "application/x-llmgw-agent"
CONNECT_PATH = "/agent/v1/connect"

MAX_STRING_BYTES = 65_536
MAX_ITEMS = 10_000


class UnknownTag(Exception):
    """A message of a kind this release does not know: skipped, and logged once per link (P-40)."""

    def __init__(self, tag: str) -> None:
        super().__init__(f"unknown message {tag!r}")
        self.tag = tag


class BadMessage(Exception):
    """A message that is not msgpack, not of its struct's shape, or over a limit (P-43). `field` names the place."""

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


class _Tag(Struct, frozen=True):
    t: str = ""


class _Envelope(Struct, frozen=True):
    msg: _Tag = _Tag()


_AGENT_TAGS = frozenset({"register", "heartbeat", "shard", "logs"})
_CONTROL_TAGS = frozenset(
    {"registered", "bye", "control_planes", "start", "stop", "drain", "logs", "remove_weights"}
)
_encoder = msgspec.msgpack.Encoder()
_agent_decoder = msgspec.msgpack.Decoder(AgentMessage)
_control_decoder = msgspec.msgpack.Decoder(Control)
_tag_decoder = msgspec.msgpack.Decoder(_Tag)
_envelope_decoder = msgspec.msgpack.Decoder(_Envelope)
_NOT_MSGPACK = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)
"""What msgspec raises on hostile bytes: its own errors, broken UTF-8, and nesting deeper than it follows."""


def is_node_id(text: str) -> bool:
    """Return whether `text` may name a node: `[a-z0-9][a-z0-9._-]{0,62}` (P-43)."""
    return re.match(NODE_ID_PATTERN, text) is not None


def encode(message: AgentMessage | Control) -> bytes:
    """Return the msgpack document of an agent's message, or of a control plane's envelope."""
    return _encoder.encode(message)


def decode_agent(data: bytes) -> AgentMessage:
    """Decode what an agent sent. Raises UnknownTag, or BadMessage naming the field."""
    try:
        message = _agent_decoder.decode(data)
    except _NOT_MSGPACK as error:
        raise _explained(error, _agent_tag(data), _AGENT_TAGS) from None
    _check_limits(message, len(data))
    return message


def decode_control(data: bytes) -> Control:
    """Decode what a control plane sent. Raises UnknownTag, or BadMessage naming the field."""
    try:
        control = _control_decoder.decode(data)
    except _NOT_MSGPACK as error:
        raise _explained(error, _control_tag(data), _CONTROL_TAGS) from None
    _check_limits(control.msg, len(data))
    return control


def _agent_tag(data: bytes) -> str:
    try:
        return _tag_decoder.decode(data).t
    except _NOT_MSGPACK:
        return ""


def _control_tag(data: bytes) -> str:
    try:
        return _envelope_decoder.decode(data).msg.t
    except _NOT_MSGPACK:
        return ""


def _explained(error: BaseException, tag: str, known: frozenset[str]) -> Exception:
    """Tell a message from a newer release from a broken one; msgspec's own text ends in "- at `$.field`"."""
    if tag and tag not in known:
        return UnknownTag(tag[:64])
    if isinstance(error, RecursionError):
        return BadMessage("nested too deeply")
    reason, _, place = str(error).partition(" - at `$")
    return BadMessage(reason, place.rstrip("`").lstrip(".").removeprefix("msg."))


def _check_limits(message: Any, size_bytes: int) -> None:
    """Hold strings to 64 KiB and lists to 10 000 entries (P-43).

    A message shorter than the smaller limit cannot break either, so that ordinary ones are not walked at all.
    """
    if size_bytes > MAX_ITEMS:
        _walk(message, "")


def _walk(value: Any, place: str) -> None:
    if isinstance(value, str):
        if len(value) > MAX_STRING_BYTES // 4 and len(value.encode()) > MAX_STRING_BYTES:
            raise BadMessage(f"longer than {MAX_STRING_BYTES} bytes", place)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            if (type(value), name) not in _LOG_TEXT:
                _walk(getattr(value, name), f"{place}.{name}" if place else name)
    elif isinstance(value, list | dict):
        _walk_items(value, place)  # pyright: ignore[reportUnknownArgumentType]


def _walk_items(items: "list[Any] | dict[Any, Any]", place: str) -> None:
    if len(items) > MAX_ITEMS:
        raise BadMessage(f"more than {MAX_ITEMS} entries", place)
    pairs = items.items() if isinstance(items, dict) else enumerate(items)
    for key, item in pairs:
        _walk(key, place)
        _walk(item, f"{place}[{key}]" if isinstance(key, int) else f"{place}[...]")


_LOG_TEXT = frozenset({(LogsReply, "lines"), (ShardStatus, "last_output")})
