"""Step 2: who is asking (S-3, T-12).

In two parts. What can be said from the header alone is said before a body is read: no key, two keys, or text that is
not a whole key cost a client nothing but its own headers (X-35). Whether anyone has the key is asked afterwards.
"""

from llmgw.gateway.exchange import Exchange
from llmgw.gateway.principals import Flood, Principals
from llmgw.gateway.refusals import Refusal, flood, store_unavailable, unauthorized
from llmgw.net.http_message import Headers
from llmgw.ports import StoreUnavailable
from llmgw.wire.api_key import digest, is_whole

MISSING = "The API key is missing: send it as 'Authorization: Bearer KEY' or as 'x-api-key: KEY'."
NOT_WHOLE = "The API key is not a whole key: it is cut short or mistyped."
NOT_VALID = "The API key is not valid."
CONFLICT = "Two different API keys were sent, in 'Authorization' and 'x-api-key'; send one."


def presented_key(headers: Headers) -> str | Refusal:
    """Return the text of the key presented, whole by its checksum, or the refusal."""
    keys = [value.strip() for value in headers.get_all("x-api-key") if value.strip()]
    for value in headers.get_all("authorization"):
        scheme, _, text = value.strip().partition(" ")
        if scheme.lower() != "bearer":
            return unauthorized(NOT_WHOLE)
        if text.strip():
            keys.append(text.strip())
    if not keys:
        return unauthorized(MISSING)
    if len(set(keys)) > 1:
        return unauthorized(CONFLICT)
    return keys[0] if is_whole(keys[0]) else unauthorized(NOT_WHOLE)


def check_shape(exchange: Exchange) -> Refusal | None:
    """Refuse what the header alone shows to be no key; keep the hash of one that may be."""
    if not exchange.settings.keys_required:
        return None
    key = presented_key(exchange.request.headers)
    if isinstance(key, Refusal):
        return key
    exchange.key_hash = digest(key)
    return None


async def authenticate(exchange: Exchange, principals: Principals) -> Refusal | None:
    """Find the principal of the key. Without keys (S-4) there is none, and no refusal."""
    if not exchange.settings.keys_required:
        return None
    try:
        exchange.principal = await principals.resolve(exchange.key_hash, exchange.address)
    except Flood:
        return flood()
    except StoreUnavailable:
        return store_unavailable()
    return None if exchange.principal is not None else unauthorized(NOT_VALID)
