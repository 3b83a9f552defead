"""What gateways last said of requests: in flight and last use per replica, waiting and arrivals per model.

A gateway that falls silent is believed to stand as it last said; a drain that waits for it ends by its own timeout.
"""

from collections.abc import Iterable

from llmgw.control.replicas import Replica
from llmgw.policy.snapshot import Load
from llmgw.ports import Report


class DemandBook:
    """The last report of each gateway."""

    def __init__(self) -> None:
        self._reports: dict[str, Report] = {}
        self._asked_s: dict[str, float] = {}

    def take(self, report: Report, now_s: float) -> set[str]:
        """Keep a report; return the models somebody asked for since the last one, or waits for."""
        self._reports[report.gateway] = report
        asked = {m for m, count in report.arrived.items() if count} | {m for m, n in report.waiting.items() if n}
        for model in asked:
            self._asked_s[model] = now_s
        return asked

    def touch(self, model: str, now_s: float) -> None:
        """Count a model as asked for: a replica found running was wanted by somebody."""
        self._asked_s[model] = now_s

    def forget(self, model: str) -> None:
        """Forget a model that was removed."""
        self._asked_s.pop(model, None)

    def refresh(self, replicas: Iterable[Replica]) -> None:
        """Bring each replica's figures up to the reports."""
        for replica in replicas:
            replica.inflight = sum(r.inflight.get(replica.id, 0) for r in self._reports.values())
            used = max((r.last_used_unix.get(replica.id, 0.0) for r in self._reports.values()), default=0.0)
            replica.last_used_unix = max(replica.last_used_unix, used)

    def load(self, model: str, replicas: Iterable[Replica], now_s: float) -> Load:
        """Return a model's demand. `replicas` are its own, refreshed."""
        waiting = sum(r.waiting.get(model, 0) for r in self._reports.values())
        inflight = sum(r.inflight for r in replicas)
        if waiting or inflight:
            self._asked_s[model] = now_s
        return Load(waiting=waiting, inflight=inflight, last_used_s=self._asked_s.get(model))

    def waiting(self, model: str) -> int:
        """Return how many requests wait for a model."""
        return sum(r.waiting.get(model, 0) for r in self._reports.values())
