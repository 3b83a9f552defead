"""Step 1, the body: all of it, within its bound, and announced as JSON (S-10)."""

from llmgw.gateway.exchange import Exchange
from llmgw.gateway.refusals import Refusal, of_status
from llmgw.net.http_message import Headers


async def read_body(exchange: Exchange) -> Refusal | None:
    """Keep the body, inflated. Raises ClientFault, which the listener answers, as the connection may be lost with it."""
    exchange.body = await exchange.request.read_body(exchange.settings.max_body_bytes)
    if is_json(exchange.request.headers):
        return None
    return of_status(415, "The content type must be application/json.")


def is_json(headers: Headers) -> bool:
    """Return whether the body is announced as JSON; one that is not announced at all is taken for it."""
    media_type = (headers.get("content-type") or "application/json").partition(";")[0].strip().lower()
    return media_type == "application/json" or (
        media_type.startswith("application/") and media_type.endswith("+json")
    )
