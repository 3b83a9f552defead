"""What a request costs and how its end is called: pure arithmetic over the exchange's figures.

Cost is rounded half up, in integers, so that no amount depends on the binary fraction of a price (T-33). The price is
that of the model that answered; an adapter has its own or its base model's.
"""

from collections.abc import Callable

import msgspec

from llmgw.gateway.exchange import Exchange
from llmgw.ports import GatewaySettings, Principal, UsageRow
from llmgw.wire.canonical import Usage

LONGEST_NAME = 256
CLIENT_GONE = 499


def cost_micros(
    prompt_tokens: int, completion_tokens: int, prompt_per_1k: int, completion_per_1k: int
) -> int:
    """Return (prompt*p + completion*c)/1000, rounded half up, in micro-units."""
    return (prompt_tokens * prompt_per_1k + completion_tokens * completion_per_1k + 500) // 1000


def prices(settings: GatewaySettings, served: str, base: str) -> tuple[int, int]:
    """Return micro-units per 1,000 prompt and completion tokens of `served`, an adapter of `base` or `base` itself."""
    for name in (served, base):
        if name in settings.prompt_price_micros or name in settings.completion_price_micros:
            return settings.prompt_price_micros.get(name, 0), settings.completion_price_micros.get(name, 0)
    return settings.default_prompt_price_micros, settings.default_completion_price_micros


def outcome_of(status: int) -> str:
    """Return the word of T-34 for a request that ended with this status."""
    if status == CLIENT_GONE:
        return "cancelled"
    if status == 429:
        return "limited"
    return "ok" if status < 400 else "error"


def usage_row(exchange: Exchange, principal: Principal, row_id: Callable[[], str], ended: float) -> UsageRow:
    """Return the row of T-34 for a request that ended at `ended` (monotonic seconds), whatever its end was."""
    usage = exchange.usage or Usage()
    target = exchange.target
    served = target.name if target is not None and exchange.replica_id else ""
    per_1k = prices(exchange.settings, target.name, target.model.name) if target is not None else (0, 0)
    ttft_s = None if exchange.first_token is None else exchange.first_token - exchange.started
    return UsageRow(
        id=row_id(),
        request_id=exchange.request_id,
        at_unix=exchange.started_unix,
        endpoint=exchange.endpoint.name,
        stream=exchange.call is not None and exchange.call.is_stream,
        key_id=principal.key_id,
        kind=principal.kind,
        project_id=principal.project_id,
        team_id=principal.team_id,
        org_id=principal.org_id,
        user_id=principal.user_id,
        model=exchange.asked[:LONGEST_NAME],
        served_model=served,
        replica_id=exchange.replica_id,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        tokens_estimated=usage.is_estimated,
        cost_micros=cost_micros(usage.prompt_tokens, usage.completion_tokens, *per_1k),
        status=exchange.status,
        outcome=exchange.outcome,
        queue_ms=_ms(exchange.queue_s),
        ttft_ms=None if ttft_s is None else _ms(ttft_s),
        latency_ms=_ms(ended - exchange.started),
        end_user=exchange.call.end_user[:LONGEST_NAME] if exchange.call is not None else "",
        tags=msgspec.json.encode(exchange.tags).decode() if exchange.tags else "",
        band=principal.band,
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
