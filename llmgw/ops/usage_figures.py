"""The usage recorder's own counts as metrics."""

from llmgw.obs.metrics import Metrics
from llmgw.store.recorder import UsageRecorder


def show_recorder(metrics: Metrics, recorder: UsageRecorder) -> None:
    """Have each scrape show what the recorder has dropped and what waits to be written."""
    dropped = metrics.counter("llmgw_usage_dropped_total", "Usage rows lost because the buffer was full.").labels()
    waiting = metrics.gauge("llmgw_usage_waiting", "Usage rows waiting to be written.").labels()
    told = 0

    def refresh() -> None:
        nonlocal told
        dropped.inc(recorder.dropped - told)
        told = recorder.dropped
        waiting.set(recorder.waiting())

    metrics.before_render(refresh)
