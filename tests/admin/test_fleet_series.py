from __future__ import annotations

import anyio
from prometheus_client.parser import text_string_to_metric_families

from llmgw.admin.fleet_series import FleetSeries
from llmgw.obs.metrics import Metrics
from llmgw.testing.memory_admin import MemoryAudit, MemoryFleetAdmin
from llmgw.wire.admin import DiskView, LoadView, NodeView


def scrape(metrics: Metrics) -> dict[tuple[str, ...], float]:
    text = anyio.run(metrics.render, backend="trio").decode()
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if family.name != "llmgw_build_info"
    }


def test_the_leader_shows_the_cluster_and_a_standby_does_not():
    leads = True
    metrics = Metrics()
    FleetSeries(metrics, MemoryFleetAdmin(MemoryAudit()), lambda: leads, "0.1.0").register()
    shown = scrape(metrics)
    assert shown["llmgw_leader",] == 1
    assert shown["llmgw_node_state", "n1", "ready"] == 1
    assert shown["llmgw_replicas", "chat", "ready"] == 1
    assert shown["llmgw_replicas", "chat", "failed"] == 0
    leads = False
    assert scrape(metrics) == {("llmgw_leader",): 0.0}


def test_what_is_not_measured_is_absent_and_what_is_gone_disappears():
    fleet, metrics = MemoryFleetAdmin(MemoryAudit()), Metrics()
    FleetSeries(metrics, fleet, lambda: True, "0.1.0").register()
    bare = NodeView(id="bare", address="a", state="unreachable")
    full = NodeView(
        id="full", address="a", state="ready", memory_bytes=100, memory_free_bytes=40,
        load=LoadView(cpu_percent=25.0, memory_percent=60.0),
        disk=(DiskView(path="/a", total=9, free=7), DiskView(path="/b", total=9, free=3)),
    )  # fmt: skip
    fleet.nodes = lambda: [bare, full]  # type: ignore[method-assign]
    nodes = {key: value for key, value in scrape(metrics).items() if key[0].startswith("llmgw_node_")}
    assert nodes == {
        ("llmgw_node_state", "bare", "unreachable"): 1, ("llmgw_node_state", "full", "ready"): 1,
        ("llmgw_node_cpu_busy_ratio", "full"): 0.25, ("llmgw_node_memory_total_bytes", "full"): 100,
        ("llmgw_node_memory_used_bytes", "full"): 60, ("llmgw_node_disk_free_bytes", "full"): 3,
    }  # fmt: skip
    fleet.nodes = lambda: [bare]  # type: ignore[method-assign]
    assert not [key for key in scrape(metrics) if "full" in key]
