"""Step 13: choose a replica, send, and try another where that is safe (S-41, S-50).

A try that failed before a byte of the answer reached the client may be repeated elsewhere, at most twice: nothing was
promised yet. A deadline is not repeated, since the next replica would be given the same time again and the client has
none left. What an engine refuses (4xx) is the client's and is passed on.
"""

from llmgw.gateway.exchange import Exchange
from llmgw.gateway.figures import Figures
from llmgw.gateway.refusals import Refusal, overloaded, timed_out, upstream_error
from llmgw.gateway.relay import Attempt, Relay, end_with_error
from llmgw.gateway.replicas import ReplicaTable
from llmgw.net.deadlines import within
from llmgw.policy.routing.pick import RandomBelow, choose

MOST_TRIES = 3


class Dispatch:
    """The step, with what it works on."""

    def __init__(
        self, replicas: ReplicaTable, relay: Relay, figures: Figures, random_below: RandomBelow
    ) -> None:
        self._replicas = replicas
        self._relay = relay
        self._figures = figures
        self._random_below = random_below

    async def __call__(self, exchange: Exchange) -> Refusal | None:
        """Answer the request from a replica, or return the refusal. Bounded by `router.timeouts.total`."""
        total_s = exchange.settings.total_s
        refusal: Refusal | None = None
        with within(total_s) as total:
            refusal = await self._tries(exchange)
        if not total.cancelled_caught or exchange.is_answered:
            return refusal
        late = timed_out(f"The answer was not complete after {round(total_s)} s.")
        if not exchange.responder.started:
            return late
        await end_with_error(exchange, late)
        return None

    async def _tries(self, exchange: Exchange) -> Refusal | None:
        assert exchange.target is not None
        tried: list[str] = []
        failed: Attempt | None = None
        while len(tried) < MOST_TRIES:
            model = exchange.target.model.name
            candidate = choose(self._replicas.candidates(model), model, tried, self._random_below)
            if candidate is None:
                break
            if failed is not None:
                self._figures.retried(failed.reason)
            tried.append(candidate.id)
            failed = await self._try(exchange, candidate.id)
            if failed is None or failed.is_final:
                return failed and failed.refusal
        if failed is None:
            return overloaded(f"No replica of '{exchange.asked}' can take the request now.")
        tries = "once" if len(tried) == 1 else f"{len(tried)} times"
        return upstream_error(f"The model was tried {tries} and {failed.refusal.message}")

    async def _try(self, exchange: Exchange, replica_id: str) -> Attempt | None:
        route = self._replicas.route(replica_id)
        assert route is not None
        exchange.replica_id, exchange.pool = route.id, route.pool
        exchange.first_token, exchange.usage = None, None
        gauge = self._figures.inflight(route.model)
        with self._replicas.slot(route.id):
            gauge.inc()
            try:
                attempt = await self._relay(exchange, route)
            finally:
                gauge.dec()
        if attempt is not None and attempt.reason == "connect":
            self._replicas.connect_failed(route.id)
        return attempt
