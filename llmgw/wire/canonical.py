"""The one model of a request and its outcome that every dialect maps to.

Stages, limits and accounting see these values and nothing of a dialect's JSON. What a stage has no need to read stays
`Raw`: the engine gets those bytes as the client wrote them.
"""

import enum

import msgspec


class Operation(enum.StrEnum):
    """What is asked of a model. The value is the engine's path under /v1/, and the `endpoint` of a usage row."""

    CHAT = "chat/completions"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one request. `is_estimated` when the engine did not say and they were counted from the outside."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_estimated: bool = False


class Call(msgspec.Struct, frozen=True):
    """One generating request, read shallowly.

    `fields` are the body's members as they were written, without those that llmgw owns (`model`, `user`, `metadata`,
    `lora`, `llmgw` and `llmgw.*`). `wants_usage`: a streaming client asked for the usage chunk. `output_cap`: the most
    tokens the client wants, 0 for no wish. `wants_base64`: vectors are to be answered in base64. `end_user`: the
    body's `user`. `tags`: the body's `metadata` where its values are text.
    """

    operation: Operation
    model: str
    is_stream: bool
    fields: dict[str, msgspec.Raw]
    wants_usage: bool = False
    output_cap: int = 0
    wants_base64: bool = False
    end_user: str = ""
    tags: dict[str, str] = {}


class BadRequest(Exception):
    """A body that cannot be served: `message` says what is wrong and where; rendered by the client's dialect."""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
