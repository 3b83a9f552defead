"""The metrics registry of a process: Prometheus families whose number of series has a bound (M-106).

A label value that clients or operators choose could otherwise grow the registry without end. Each family holds at
most `cap` combinations; a further one is counted under `other`, and what had a series keeps it. Children are cached
here, since finding one by name costs more than the increment. Rendering goes to a thread: 1,000 series take 41 ms.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

OTHER = "other"
"""The label value of what is beyond a family's bound."""

TEXT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

TTFT_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60)
TPOT_BUCKETS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1)
REQUEST_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
TOKENS_PER_SECOND_BUCKETS = (1, 2, 5, 10, 20, 30, 50, 75, 100, 150, 200, 400)
"""Bucket bounds of M-108, in seconds and tokens per second."""


@dataclass(frozen=True)
class Described:
    """What a family is, for the reference page."""

    name: str
    kind: str
    meaning: str
    labels: tuple[str, ...]


class Family:
    """One metric with its labelled children."""

    def __init__(self, described: Described, metric: Any, cap: int) -> None:
        self.described = described
        self._metric = metric
        self._cap = cap
        self._children: dict[tuple[str, ...], Any] = {}
        self._overflow = (OTHER,) * len(described.labels)

    def labels(self, *values: str) -> Any:
        """Return the child for these label values (`inc`, `set`, `observe`), or that of `other` beyond the bound."""
        child = self._children.get(values)
        return child if child is not None else self._make(values)

    def keep(self, wanted: Iterable[tuple[str, ...]]) -> None:
        """Drop the series of every other combination: what is gone leaves no stale reading (M-105)."""
        stay = set(wanted)
        for values in [values for values in self._children if values not in stay]:
            del self._children[values]
            self._metric.remove(*values)

    def _make(self, values: tuple[str, ...]) -> Any:
        if not self.described.labels:
            return self._metric
        if len(values) != len(self.described.labels):
            raise ValueError(f"{self.described.name} has labels {self.described.labels}, not {len(values)} values")
        if len(self._children) >= self._cap and values != self._overflow:
            return self._children.get(self._overflow) or self._make(self._overflow)
        child = self._metric.labels(*values)
        self._children[values] = child
        return child


class Metrics:
    """A registry of its own; nothing is shared between two of them."""

    def __init__(self) -> None:
        # Without this every counter has a second series telling when it was made, which nobody asks for.
        disable_created_metrics()
        self._registry = CollectorRegistry(auto_describe=False)
        self._families: dict[str, Family] = {}
        self._refreshers: list[Callable[[], None]] = []
        self._render_limit = anyio.CapacityLimiter(1)

    def counter(self, name: str, meaning: str, labels: Sequence[str] = (), cap: int = 1000) -> Family:
        """Return the counter `name` (ending in `_total`), made at the first call."""
        return self._family("counter", Counter, name, meaning, labels, cap)

    def gauge(self, name: str, meaning: str, labels: Sequence[str] = (), cap: int = 1000) -> Family:
        """Return the gauge `name`, made at the first call."""
        return self._family("gauge", Gauge, name, meaning, labels, cap)

    def histogram(
        self, name: str, meaning: str, labels: Sequence[str] = (), cap: int = 1000, *, buckets: Sequence[float]
    ) -> Family:
        """Return the histogram `name` with those upper bounds, made at the first call."""
        return self._family("histogram", Histogram, name, meaning, labels, cap, buckets=tuple(buckets))

    def before_render(self, refresh: Callable[[], None]) -> None:
        """Call `refresh` on the loop before each scrape: gauges that show a state are set there."""
        self._refreshers.append(refresh)

    def described(self) -> list[Described]:
        """Return every family, by name."""
        return sorted((family.described for family in self._families.values()), key=lambda d: d.name)

    async def render(self, *, as_openmetrics: bool = False) -> bytes:
        """Return the exposition text (format 0.0.4, or OpenMetrics 1.0.0), made in a thread."""
        for refresh in self._refreshers:
            refresh()
        write: Callable[[Any], bytes] = openmetrics.generate_latest if as_openmetrics else generate_latest
        return await anyio.to_thread.run_sync(write, self._registry, limiter=self._render_limit)

    def _family(
        self, kind: str, make: Any, name: str, meaning: str, labels: Sequence[str], cap: int, **more: Any
    ) -> Family:
        described = Described(name, kind, meaning, tuple(labels))
        known = self._families.get(name)
        if known is not None:
            if (known.described.kind, known.described.labels) != (kind, described.labels):
                raise ValueError(f"metric {name} is already a {known.described.kind} of {known.described.labels}")
            return known
        metric = make(name, meaning, described.labels, registry=self._registry, **more)
        family = self._families[name] = Family(described, metric, cap)
        return family
