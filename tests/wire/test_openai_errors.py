import msgspec
import pytest

from llmgw.wire import openai_errors as errors

# The table of S-6, as far as its kinds exist: status, type, code, Retry-After.
TABLE = [
    (errors.BAD_REQUEST, 400, "invalid_request_error", None, False),
    (errors.CONTEXT_LENGTH_EXCEEDED, 400, "invalid_request_error", "context_length_exceeded", False),
    (errors.UNSUPPORTED_CAPABILITY, 400, "invalid_request_error", "unsupported_capability", False),
    (errors.INVALID_API_KEY, 401, "authentication_error", "invalid_api_key", False),
    (errors.MODEL_NOT_ALLOWED, 403, "permission_error", "model_not_allowed", False),
    (errors.NOT_FOUND, 404, "invalid_request_error", "not_found", False),
    (errors.UNKNOWN_PATH, 404, "invalid_request_error", None, False),
    (errors.METHOD_NOT_ALLOWED, 405, "invalid_request_error", None, False),
    (errors.REQUEST_TIMEOUT, 408, "invalid_request_error", "timeout", False),
    (errors.BODY_TOO_LARGE, 413, "invalid_request_error", "body_too_large", False),
    (errors.UNSUPPORTED_MEDIA_TYPE, 415, "invalid_request_error", "unsupported_media_type", False),
    (errors.RATE_LIMIT_EXCEEDED, 429, "rate_limit_error", "rate_limit_exceeded", True),
    (errors.INSUFFICIENT_QUOTA, 429, "rate_limit_error", "insufficient_quota", False),
    (errors.UPSTREAM_ERROR, 502, "api_error", "upstream_error", False),
    (errors.MODEL_NOT_SERVED, 503, "api_error", "model_not_served", False),
    (errors.MODEL_LOADING, 503, "api_error", "model_loading", True),
    (errors.OVERLOADED, 503, "api_error", "overloaded", True),
    (errors.STORE_UNAVAILABLE, 503, "api_error", "store_unavailable", True),
    (errors.UPSTREAM_TIMEOUT, 504, "api_error", "timeout", False),
]


@pytest.mark.parametrize(("kind", "status", "type_", "code", "retries"), TABLE)
def test_each_kind_is_told_as_its_row_says(
    kind: errors.ErrorKind, status: int, type_: str, code: str | None, retries: bool
) -> None:
    body = msgspec.json.decode(errors.render_kind(kind, "what, where, what to do", "model"))
    assert kind.status == status
    error = {"message": "what, where, what to do", "type": type_, "param": "model", "code": code}
    assert body == {"error": error}
    assert ("retry-after" in dict(errors.headers(kind))) == retries


def test_only_a_model_nobody_serves_is_not_to_be_retried_among_the_503() -> None:
    never = [kind.code for kind, status, *_ in TABLE if status == 503 and "x-should-retry" in dict(errors.headers(kind))]
    assert never == ["model_not_served"]


def test_waiting_times_are_whole_seconds_and_never_none() -> None:
    assert dict(errors.headers(errors.OVERLOADED, 2.1))["retry-after"] == "3"
    assert dict(errors.headers(errors.OVERLOADED, 0.0))["retry-after"] == "1"
    assert "retry-after" not in dict(errors.headers(errors.INSUFFICIENT_QUOTA))
    assert dict(errors.headers(errors.INSUFFICIENT_QUOTA, 60))["retry-after"] == "60"


def test_a_failed_stream_ends_in_an_error_and_done() -> None:
    events = errors.stream_error(errors.UPSTREAM_ERROR, "it broke").split(b"\n\n")
    assert msgspec.json.decode(events[0].removeprefix(b"data: "))["error"]["code"] == "upstream_error"
    assert events[1:] == [b"data: [DONE]", b""]


@pytest.mark.parametrize(
    ("status", "type_"), [(418, "invalid_request_error"), (431, "invalid_request_error"), (507, "api_error")]
)
def test_a_status_without_a_row_still_has_a_type(status: int, type_: str) -> None:
    kind = errors.kind_of_status(status)
    assert (kind.status, kind.type, kind.code) == (status, type_, None)
    assert errors.kind_of_status(413) is errors.BODY_TOO_LARGE
