"""Errors in OpenAI's shape: the table of S-6, one row per kind of failure.

Retrying is part of a kind: the SDKs retry 429 and every 5xx on their own, so a refusal that waiting will not mend says
`x-should-retry: false`, and one that it will mend says after how many seconds.
"""

import enum
import math

import msgspec


class Retry(enum.Enum):
    """What a client is told about trying again."""

    NO_WORD = enum.auto()
    """No header: the status says enough."""
    AFTER = enum.auto()
    """`Retry-After` with whole seconds, at least 1."""
    AFTER_IF_KNOWN = enum.auto()
    """`Retry-After` when the caller gives seconds, else nothing: waiting does not help."""
    NEVER = enum.auto()
    """`x-should-retry: false`."""


class ErrorKind(msgspec.Struct, frozen=True):
    """One row of the table: how a failure is told."""

    status: int
    type: str
    code: str | None
    retry: Retry = Retry.NO_WORD


_REQUEST = "invalid_request_error"

BAD_REQUEST = ErrorKind(400, _REQUEST, None)
CONTEXT_LENGTH_EXCEEDED = ErrorKind(400, _REQUEST, "context_length_exceeded")
UNSUPPORTED_CAPABILITY = ErrorKind(400, _REQUEST, "unsupported_capability")
INVALID_API_KEY = ErrorKind(401, "authentication_error", "invalid_api_key")
MODEL_NOT_ALLOWED = ErrorKind(403, "permission_error", "model_not_allowed")
NOT_FOUND = ErrorKind(404, _REQUEST, "not_found")
UNKNOWN_PATH = ErrorKind(404, _REQUEST, None)
METHOD_NOT_ALLOWED = ErrorKind(405, _REQUEST, None)
REQUEST_TIMEOUT = ErrorKind(408, _REQUEST, "timeout")
BODY_TOO_LARGE = ErrorKind(413, _REQUEST, "body_too_large")
UNSUPPORTED_MEDIA_TYPE = ErrorKind(415, _REQUEST, "unsupported_media_type")
RATE_LIMIT_EXCEEDED = ErrorKind(429, "rate_limit_error", "rate_limit_exceeded", Retry.AFTER)
INSUFFICIENT_QUOTA = ErrorKind(429, "rate_limit_error", "insufficient_quota", Retry.AFTER_IF_KNOWN)
INTERNAL = ErrorKind(500, "api_error", "internal_error", Retry.NEVER)
UPSTREAM_ERROR = ErrorKind(502, "api_error", "upstream_error")
MODEL_NOT_SERVED = ErrorKind(503, "api_error", "model_not_served", Retry.NEVER)
MODEL_LOADING = ErrorKind(503, "api_error", "model_loading", Retry.AFTER)
OVERLOADED = ErrorKind(503, "api_error", "overloaded", Retry.AFTER)
STORE_UNAVAILABLE = ErrorKind(503, "api_error", "store_unavailable", Retry.AFTER)
UPSTREAM_TIMEOUT = ErrorKind(504, "api_error", "timeout")

_OF_STATUS = {
    kind.status: kind
    for kind in (
        BAD_REQUEST, UNKNOWN_PATH, METHOD_NOT_ALLOWED, REQUEST_TIMEOUT, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE,
        INTERNAL, UPSTREAM_ERROR, OVERLOADED, UPSTREAM_TIMEOUT,
    )
}  # fmt: skip


def kind_of_status(status: int) -> ErrorKind:
    """Return the row for a fault of the transport or an engine's own status, which have no code but their status."""
    if kind := _OF_STATUS.get(status):
        return kind
    return ErrorKind(status, _REQUEST if status < 500 else "api_error", None)


def render(status: int, type: str, code: str | None, message: str, param: str | None = None) -> bytes:
    """Return the JSON body of an error. The status is the caller's line, not part of OpenAI's body."""
    del status
    return msgspec.json.encode({"error": {"message": message, "type": type, "param": param, "code": code}})


def render_kind(kind: ErrorKind, message: str, param: str | None = None) -> bytes:
    """Return the JSON body of an error of this kind."""
    return render(kind.status, kind.type, kind.code, message, param)


def headers(kind: ErrorKind, retry_after_s: float | None = None) -> list[tuple[str, str]]:
    """Return the headers an error of this kind is sent with. `retry_after_s` is rounded up to whole seconds."""
    pairs = [("content-type", "application/json")]
    if kind.retry is Retry.NEVER:
        pairs.append(("x-should-retry", "false"))
    elif kind.retry is Retry.AFTER or (kind.retry is Retry.AFTER_IF_KNOWN and retry_after_s is not None):
        pairs.append(("retry-after", str(max(1, math.ceil(retry_after_s or 1.0)))))
    return pairs


def stream_error(kind: ErrorKind, message: str) -> bytes:
    """Return what ends a started stream that failed: one error event, then `[DONE]` (S-8)."""
    return b"data: " + render_kind(kind, message) + b"\n\ndata: [DONE]\n\n"
