"""The fleet's state as metrics (M-131, M-132, M-148, M-149): set from the same views the API answers with.

The leader alone publishes the cluster's series (M-105). What is not measured is absent (M-103), and a node or model
that is gone takes its series along.
"""

import platform
from collections.abc import Callable, Iterable

from llmgw.obs.metrics import Family, Metrics
from llmgw.ports import FleetAdmin
from llmgw.wire.admin import ModelLine, NodeView, ReplicaView

_REPLICA_STATES = ("pending", "fetching", "starting", "ready", "draining", "failed")


class FleetSeries:
    """Gauges of nodes, replicas and models, refreshed at each scrape."""

    def __init__(self, metrics: Metrics, fleet: FleetAdmin, leading: Callable[[], bool], release: str) -> None:
        self._metrics = metrics
        self._fleet = fleet
        self._leading = leading
        build = metrics.gauge("llmgw_build_info", "The release that runs.", ["version", "python"])
        build.labels(release, platform.python_version()).set(1)
        self._leader = metrics.gauge("llmgw_leader", "Whether this control plane leads.")
        self._state = metrics.gauge("llmgw_node_state", "The state a node is in.", ["node", "state"])
        self._cpu = metrics.gauge("llmgw_node_cpu_busy_ratio", "Busy share of a node's cores.", ["node"])
        self._used = metrics.gauge("llmgw_node_memory_used_bytes", "Memory in use on a node.", ["node"])
        self._total = metrics.gauge("llmgw_node_memory_total_bytes", "Memory of a node.", ["node"])
        self._disk = metrics.gauge("llmgw_node_disk_free_bytes", "Least free space of a node's folders.", ["node"])
        self._replicas = metrics.gauge(
            "llmgw_replicas", "Replicas of a model by state.", ["model", "state"], cap=6000
        )
        self._wanted = metrics.gauge("llmgw_model_wanted", "Replicas a model wants now.", ["model"])
        self._parked = metrics.gauge("llmgw_model_parked", "Whether a model is no longer tried.", ["model"])
        self._unplaceable = metrics.gauge("llmgw_model_unplaceable", "Whether a model fits nowhere.", ["model"])

    def register(self) -> None:
        """Refresh before every scrape from now on."""
        self._metrics.before_render(self.refresh)

    def refresh(self) -> None:
        """Set every series to what the leader shows now; none of the cluster's on a standby."""
        leads = self._leading()
        self._leader.labels().set(int(leads))
        self._show_nodes(self._fleet.nodes() if leads else ())
        self._show_models(
            self._fleet.model_lines() if leads else (), self._fleet.replica_views(None) if leads else ()
        )

    def _show_nodes(self, nodes: Iterable[NodeView]) -> None:
        seen = list(nodes)
        _set(self._state, {(node.id, node.state): 1.0 for node in seen})
        _set(self._cpu, {(node.id,): node.load.cpu_percent / 100 for node in seen if node.load is not None})
        sized = [node for node in seen if node.memory_bytes > 0]
        _set(self._total, {(node.id,): float(node.memory_bytes) for node in sized})
        measured = [node for node in sized if node.load is not None]
        _set(self._used, {(node.id,): float(node.memory_bytes - node.memory_free_bytes) for node in measured})
        _set(self._disk, {(node.id,): float(min(d.free for d in node.disk)) for node in seen if node.disk})

    def _show_models(self, lines: Iterable[ModelLine], replicas: Iterable[ReplicaView]) -> None:
        models = list(lines)
        counts = {(model.name, state): 0.0 for model in models for state in _REPLICA_STATES}
        for replica in replicas:
            counts[replica.model, replica.state] = counts.get((replica.model, replica.state), 0.0) + 1
        _set(self._replicas, counts)
        _set(self._wanted, {(model.name,): float(model.desired) for model in models})
        _set(self._parked, {(model.name,): float(model.parked) for model in models})
        _set(self._unplaceable, {(model.name,): float(model.unplaceable) for model in models})


def _set(family: Family, values: dict[tuple[str, ...], float]) -> None:
    family.keep(values)
    for labels, value in values.items():
        family.labels(*labels).set(value)
