"""Reads every engine's load page every two seconds (S-42).

Each engine names its gauges differently; the mapping is the table of the engine chapter, section 11. A series that is
missing stays unknown. All replicas are read side by side and each within one interval, so an engine that hangs makes
itself stale and delays nobody.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import anyio
import msgspec
from anyio.abc import TaskStatus

from llmgw.gateway.feed import Feed
from llmgw.gateway.replicas import Gauges, ReplicaTable
from llmgw.net.deadlines import Deadlines
from llmgw.net.engine_pool import Endpoint, EnginePool
from llmgw.net.upstream_errors import UpstreamError
from llmgw.ports import ReplicaRoute
from llmgw.wire.prometheus_text import Sample, parse

LARGEST_PAGE_BYTES = 4 * 1024 * 1024
AT_ONCE = 64


class Series(msgspec.Struct, frozen=True):
    """Names of one engine's gauges; older names after newer ones."""

    running: tuple[str, ...]
    waiting: tuple[str, ...]
    kv_use: tuple[str, ...]


_VLLM = Series(
    ("vllm:num_requests_running",),
    ("vllm:num_requests_waiting",),
    ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
)
SERIES: Mapping[str, Series] = {
    "llamacpp": Series(
        ("llamacpp:requests_processing",), ("llamacpp:requests_deferred",), ("llamacpp:kv_cache_usage_ratio",)
    ),
    "vllm": _VLLM,
    "sim": _VLLM,
    "sglang": Series(("sglang:num_running_reqs",), ("sglang:num_queue_reqs",), ("sglang:token_usage",)),
    "trtllm": Series(
        ("trtllm_num_requests_running",), ("trtllm_num_requests_waiting",), ("trtllm_kv_cache_utilization",)
    ),
}


def gauges_of(engine: str, page: bytes) -> Gauges:
    """Return what a metrics page says of load. Lines of other series are not parsed: pages have hundreds."""
    names = SERIES.get(engine)
    if names is None:
        return Gauges()
    wanted = tuple(name.encode() for name in (*names.running, *names.waiting, *names.kv_use))
    samples = parse(b"\n".join(line for line in page.split(b"\n") if line.startswith(wanted)))
    return Gauges(
        running=_first(samples, names.running, sum),
        waiting=_first(samples, names.waiting, sum),
        kv_use=_first(samples, names.kv_use, max),
    )


def _first(
    samples: Mapping[str, Sequence[Sample]], names: Sequence[str], of: Callable[[list[float]], float]
) -> float | None:
    for name in names:
        values = [sample.value for sample in samples.get(name, ()) if math.isfinite(sample.value)]
        if values:
            return of(values)
    return None


class Scraper:
    """The service that keeps the replica table's gauges fresh."""

    def __init__(self, feed: Feed, replicas: ReplicaTable, pool: EnginePool) -> None:
        self._feed = feed
        self._replicas = replicas
        self._pool = pool
        self._limiter = anyio.CapacityLimiter(AT_ONCE)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Scrape until cancelled, at the interval of the settings."""
        task_status.started()
        while True:
            interval_s = self._feed.settings.scrape_interval_s
            await self.scrape_all(interval_s)
            await anyio.sleep(interval_s)

    async def scrape_all(self, deadline_s: float) -> None:
        """Read every replica once, each within the deadline (seconds)."""
        async with anyio.create_task_group() as group:
            for route in self._replicas.routes():
                group.start_soon(self._scrape, route, deadline_s)

    async def _scrape(self, route: ReplicaRoute, deadline_s: float) -> None:
        async with self._limiter:
            inflight_then = self._replicas.inflight_at(route.id)
            page = None
            with anyio.move_on_after(deadline_s):
                page = await self._page(route, deadline_s)
        if page is None:
            self._replicas.scrape_failed(route.id)
            return
        self._replicas.scraped(route.id, gauges_of(route.engine, page), inflight_then)

    async def _page(self, route: ReplicaRoute, deadline_s: float) -> bytes | None:
        headers = [("authorization", f"Bearer {route.api_key}")] if route.api_key else []
        deadlines = Deadlines(connect_s=deadline_s, first_byte_s=deadline_s, idle_s=deadline_s)
        endpoint = Endpoint(route.host, route.port)
        try:
            async with self._pool.request(
                endpoint, "GET", route.metrics_path, headers, b"", deadlines
            ) as answer:
                page = await answer.read(LARGEST_PAGE_BYTES)
                return page if answer.status == 200 else None
        except UpstreamError:
            return None
