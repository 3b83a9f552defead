"""What a client is told when its request is not answered, as a value.

A refusal says what, where and what to do; the kinds are the rows of S-6 in `wire.openai_errors`. Stages return one
instead of raising, so that a refusal can never be mistaken for a fault of ours.
"""

import msgspec

from llmgw.wire import openai_errors as kinds


class Refusal(msgspec.Struct, frozen=True):
    """One refusal: a kind of S-6 and the sentence. `allow` is the methods a 405 names."""

    kind: kinds.ErrorKind
    message: str
    param: str | None = None
    retry_after_s: float | None = None
    allow: str = ""

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.kind.status

    def headers(self) -> list[tuple[str, str]]:
        """Return the answer headers of this refusal, content type included."""
        headers = kinds.headers(self.kind, self.retry_after_s)
        if self.allow:
            headers.append(("allow", self.allow))
        return headers

    def body(self) -> bytes:
        """Return the error in OpenAI's shape."""
        return kinds.render_kind(self.kind, self.message, self.param)


def of_status(status: int, message: str) -> Refusal:
    """Return the refusal for a status that names no particular kind (transport faults, an engine's own 4xx)."""
    return Refusal(kinds.kind_of_status(status), message)


def bad_request(message: str, param: str | None = None) -> Refusal:
    """400: the client has to change its request."""
    return Refusal(kinds.BAD_REQUEST, message, param)


def unsupported(message: str) -> Refusal:
    """400: the model cannot do what the endpoint needs."""
    return Refusal(kinds.UNSUPPORTED_CAPABILITY, message, "model")


def unauthorized(message: str) -> Refusal:
    """401: no usable key. Unknown and revoked keys are told the same (T-12)."""
    return Refusal(kinds.INVALID_API_KEY, message)


def model_not_allowed(model: str) -> Refusal:
    """403: the key may not use the model."""
    return Refusal(kinds.MODEL_NOT_ALLOWED, f"This key may not use the model '{model}'.", "model")


def unknown_path(path: str) -> Refusal:
    """404: no such path in the API."""
    return Refusal(kinds.UNKNOWN_PATH, f"There is nothing at {path[:200]}; docs/api.md lists the paths.")


def no_such_model(model: str) -> Refusal:
    """404: `/v1/models/ID` of a model that is not there for this caller, and guard models whoever asks."""
    return Refusal(
        kinds.NOT_FOUND, f"The model '{model}' does not exist or is not available to you.", "model"
    )


def wrong_method(method: str, path: str, allowed: str) -> Refusal:
    """405 with `Allow`."""
    message = f"{method} is not possible on {path[:200]}; use {allowed}."
    return Refusal(kinds.METHOD_NOT_ALLOWED, message, allow=allowed)


def flood() -> Refusal:
    """429 for an address that asked for too many unknown keys."""
    message = "Too many unknown API keys came from this address; check the key and try again in a second."
    return Refusal(kinds.RATE_LIMIT_EXCEEDED, message, retry_after_s=1)


def limited() -> Refusal:
    """429: the key's allowance is spent for the moment."""
    message = "This key's requests a minute are spent; try again in a moment."
    return Refusal(kinds.RATE_LIMIT_EXCEEDED, message, retry_after_s=1)


def upstream_error(message: str) -> Refusal:
    """502: engines broke before their first byte on every attempt."""
    return Refusal(kinds.UPSTREAM_ERROR, message)


def model_not_served(model: str, served: list[str]) -> Refusal:
    """503 that a client is told not to retry: no such model here. Lists the names that are served."""
    names = ", ".join(served) if served else "none"
    message = f"The model '{model[:200]}' is not served here. Models you may use: {names}."
    return Refusal(kinds.MODEL_NOT_SERVED, message, "model")


def model_loading(message: str, retry_after_s: float = 5) -> Refusal:
    """503: the model exists and no replica of it is ready."""
    return Refusal(kinds.MODEL_LOADING, message, "model", retry_after_s)


def overloaded(message: str, retry_after_s: float = 5) -> Refusal:
    """503: the model has replicas and none can take this request now."""
    return Refusal(kinds.OVERLOADED, message, "model", retry_after_s)


def store_unavailable() -> Refusal:
    """503: the key is not known here and the store cannot be asked (never 401: F-15)."""
    message = "The key store cannot be reached, so this key cannot be checked; try again shortly."
    return Refusal(kinds.STORE_UNAVAILABLE, message, retry_after_s=2)


def timed_out(message: str) -> Refusal:
    """504: an engine let a deadline pass."""
    return Refusal(kinds.UPSTREAM_TIMEOUT, message)


def internal(fault_id: str) -> Refusal:
    """500: our own fault; the id finds it in the log."""
    return Refusal(kinds.INTERNAL, f"The gateway failed at this request; its log has fault {fault_id}.")
