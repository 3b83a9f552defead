"""Allowance of a key's counters, held for a few seconds so that a request seldom has to ask (T-60).

No key has a limit yet, so what is held says "unlimited" and is only renewed. The shape is the final one: a lease is
taken before the request goes on, is valid from receipt, and what it left unspent goes back with the next ask.
"""

from collections.abc import Callable

import msgspec

from llmgw.gateway.principals import Bounded
from llmgw.gateway.refusals import Refusal, limited, store_unavailable
from llmgw.ports import ControlPort, LeaseAsk, StoreUnavailable

HELD = 10_000
UNITS = 1


class _Held(msgspec.Struct):
    units: int
    valid_until: float
    is_unlimited: bool


class Leases:
    """The leases one gateway holds. `clock` is monotonic seconds; `holder` names this gateway to the owner."""

    def __init__(self, port: ControlPort, holder: str, clock: Callable[[], float]) -> None:
        self._port = port
        self._holder = holder
        self._clock = clock
        self._held: Bounded[_Held] = Bounded(HELD)

    async def spend(self, counter: str) -> Refusal | None:
        """Spend one unit of a counter, asking for more when none is held; a refusal when there is none to be had."""
        held = self._held.get(counter)
        if held is None or self._clock() >= held.valid_until or not (held.is_unlimited or held.units):
            held = await self._renew(counter, held)
        if held.is_unlimited:
            return None
        if held.units < 1:
            return store_unavailable() if held.valid_until == 0.0 else limited()
        held.units -= 1
        return None

    async def _renew(self, counter: str, held: _Held | None) -> _Held:
        returned = 0 if held is None else held.units
        try:
            grant = await self._port.lease(LeaseAsk(counter, UNITS, self._holder, returned))
        except StoreUnavailable:
            return held if held is not None and held.is_unlimited else _Held(0, 0.0, False)
        renewed = _Held(grant.units, self._clock() + grant.valid_s, grant.unlimited)
        self._held.put(counter, renewed)
        return renewed
