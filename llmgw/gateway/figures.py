"""The gateway's metric families (S-92), made once, and what one finished request adds to them.

Labels a client can influence are taken from the catalog, never from the request: a request for a model that does not
exist is counted under the model "" (F-19). The registry caps series as well.

What a finished request adds to counters is summed in plain numbers, and goes to the registry before a scrape: seven
labelled counters a request cost more than choosing its replica.
"""

from typing import Any

from llmgw.gateway.exchange import Exchange
from llmgw.obs.metrics import TOKENS_PER_SECOND_BUCKETS, TPOT_BUCKETS, TTFT_BUCKETS, Family, Metrics

TENANT_OUTCOMES = {"blocked": "ok", "cancelled": "ok"}
"""Neither is a failure of the service (T-43)."""


MOST_SUMS = 1000
"""So many combinations of labels are summed before they go to the registry, scraped or not."""


class _Sum:
    """Requests that differ in no label, summed. `prompt`, `completion` are None while none told its tokens."""

    __slots__ = ("completion", "prompt", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.prompt: int | None = None
        self.completion: int | None = None


class Figures:
    """All families of the gateway."""

    def __init__(self, metrics: Metrics) -> None:
        self._requests = metrics.counter(
            "llmgw_requests_total", "Requests to models, by status.", ("model", "status", "band")
        )
        self._inflight = metrics.gauge("llmgw_inflight", "Requests at engines now.", ("model",))
        self._retries = metrics.counter("llmgw_retries_total", "Attempts at another replica.", ("reason",))
        self._tokens = metrics.counter("llmgw_tokens_total", "Tokens of requests.", ("model", "direction"))
        self._ttft = metrics.histogram(
            "llmgw_ttft_seconds", "Time to the first token.", ("model", "pool"), buckets=TTFT_BUCKETS
        )
        self._tpot = metrics.histogram(
            "llmgw_tpot_seconds",
            "Time per output token after the first.",
            ("model", "pool"),
            buckets=TPOT_BUCKETS,
        )
        self._speed = metrics.histogram(
            "llmgw_output_tokens_per_second",
            "Output tokens a second.",
            ("model", "pool"),
            buckets=TOKENS_PER_SECOND_BUCKETS,
        )
        self._tenant_requests = metrics.counter(
            "llmgw_tenant_requests_total", "Requests of a tenant, by outcome.", ("tenant", "outcome")
        )
        self._tenant_tokens = metrics.counter(
            "llmgw_tenant_tokens_total", "Tokens of a tenant.", ("tenant", "direction")
        )
        self._sums: dict[tuple[str, int, str, str | None, str], _Sum] = {}
        metrics.before_render(self._hand_over)

    def inflight(self, model: str) -> Any:
        """Return the gauge of one model's requests at engines."""
        return self._inflight.labels(model)

    def retried(self, reason: str) -> None:
        """Count an attempt that failed and was followed by another."""
        self._retries.labels(reason).inc()

    def finished(self, exchange: Exchange, ended: float) -> None:
        """Add one finished request. `ended` is monotonic seconds."""
        model = exchange.target.name if exchange.target is not None else ""
        band = exchange.principal.band if exchange.principal is not None else exchange.band
        tenant = exchange.principal.team_id if exchange.principal is not None else None
        labels = (model, exchange.status, band, tenant, exchange.outcome)
        total = self._sums.get(labels)
        if total is None:
            if len(self._sums) >= MOST_SUMS:
                self._hand_over()
            total = self._sums[labels] = _Sum()
        total.requests += 1
        if exchange.usage is not None:
            total.prompt = (total.prompt or 0) + exchange.usage.prompt_tokens
            total.completion = (total.completion or 0) + exchange.usage.completion_tokens
        self._add_times(exchange, model, ended)

    def _hand_over(self) -> None:
        """Add what was summed since the last time to the registry."""
        sums, self._sums = self._sums, {}
        for (model, status, band, tenant, outcome), total in sums.items():
            self._requests.labels(model, str(status), band).inc(total.requests)
            if model:
                _add_tokens(self._tokens, model, total)
            if tenant is not None:
                outcome = TENANT_OUTCOMES.get(outcome, outcome)
                self._tenant_requests.labels(tenant, outcome).inc(total.requests)
                _add_tokens(self._tenant_tokens, tenant, total)

    def _add_times(self, exchange: Exchange, model: str, ended: float) -> None:
        if exchange.first_token is None or exchange.status >= 400:
            return
        self._ttft.labels(model, exchange.pool).observe(exchange.first_token - exchange.started)
        completion = exchange.usage.completion_tokens if exchange.usage is not None else 0
        streamed_s = ended - exchange.first_token
        if completion > 1 and streamed_s > 0 and exchange.call is not None and exchange.call.is_stream:
            self._tpot.labels(model, exchange.pool).observe(streamed_s / (completion - 1))
            self._speed.labels(model, exchange.pool).observe((completion - 1) / streamed_s)


def _add_tokens(family: Family, owner: str, total: _Sum) -> None:
    if total.prompt is not None and total.completion is not None:
        family.labels(owner, "prompt").inc(total.prompt)
        family.labels(owner, "completion").inc(total.completion)
