"""One request on its way through the stages: what is known of it so far.

A stage reads what earlier ones found and writes what it finds itself; nothing else carries state between stages. The
figures at the end become the usage row, the metrics and the access log, whatever the end was.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from llmgw.gateway.names import Target
from llmgw.gateway.routes import Endpoint
from llmgw.net.http_message import Request, Responder
from llmgw.ports import GatewaySettings, Principal
from llmgw.wire.canonical import Call, Usage

STREAM_HEADERS = (
    ("content-type", "text/event-stream"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
)


@dataclass(slots=True)
class Exchange:
    """A request, its answer, and everything found out in between. Times are seconds of the monotonic clock."""

    request: Request
    responder: Responder
    endpoint: Endpoint
    settings: GatewaySettings
    request_id: str
    address: str
    clock: Callable[[], float]
    started: float
    started_unix: float
    key_hash: str = ""
    key_fault: str = ""
    principal: Principal | None = None
    body: bytes = b""
    call: Call | None = None
    asked: str = ""
    target: Target | None = None
    tags: dict[str, str] = field(default_factory=dict)
    replica_id: str = ""
    pool: str = ""
    queue_s: float = 0.0
    first_token: float | None = None
    produced: int = 0
    usage: Usage | None = None
    status: int = 0
    outcome: str = ""
    band: str = "silver"
    error_code: str = ""
    is_mid_write: bool = False
    is_answered: bool = False

    def saw_token(self) -> None:
        """Note that a piece of the answer came from the engine: the first sets the time to first token."""
        if self.first_token is None:
            self.first_token = self.clock()
        self.produced += 1

    def answer_headers(self) -> list[tuple[str, str]]:
        """Return the headers every answer carries, and those known by now."""
        headers = [("x-request-id", self.request_id)]
        if self.queue_s > 0:
            headers.append(("x-llmgw-queue-ms", str(round(self.queue_s * 1000))))
        return headers
