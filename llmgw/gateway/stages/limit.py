"""Step 6: allowance. A lease of the key's request counter is held before the request goes on (S-15, T-60)."""

from llmgw.gateway.exchange import Exchange
from llmgw.gateway.leases import Leases
from llmgw.gateway.refusals import Refusal


async def limit(exchange: Exchange, leases: Leases) -> Refusal | None:
    """Spend one request of the key's allowance; without a key nothing is limited."""
    if exchange.principal is None:
        return None
    return await leases.spend(f"rpm:{exchange.principal.key_id}")
