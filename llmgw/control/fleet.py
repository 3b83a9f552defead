"""What the admin API reads of the leader: nodes, models, replicas, and why a model is where it is."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

import llmgw
from llmgw.config.model import ModelDefinition, definition_data
from llmgw.control.estate import Estate
from llmgw.control.replicas import Replica
from llmgw.control.routes import model_status
from llmgw.control.views import gpu_labels, model_line, node_view, rejection_views, replica_view
from llmgw.policy.placement import fitting
from llmgw.policy.room import Room
from llmgw.policy.summary import summarize
from llmgw.wire.admin import (
    ModelLine,
    NodeView,
    PlacedView,
    PlacementView,
    ProfilePlacementView,
    ReplicaView,
    Summary,
    rfc3339,
)

FAILED_SHOWN_S = 600.0


class FleetViews:
    """The reading half of `ports.FleetAdmin`."""

    def __init__(self, estate: Estate) -> None:
        self._estate = estate

    def nodes(self) -> Sequence[NodeView]:
        """Return every node known, by id."""
        return [node_view(self._estate, node) for node in self._estate.inventory]

    def model_lines(self) -> Sequence[ModelLine]:
        """Return every model, by name."""
        return [model_line(self._estate, definition) for definition in self._estate.catalog]

    def model_definition(self, name: str) -> Mapping[str, Any]:
        """Return a definition as plain data with defaults filled, and the list's fields under `state`. Refused(404)."""
        definition = self._estate.catalog[name]
        state = msgspec.to_builtins(model_line(self._estate, definition))
        return {**definition_data(definition), "state": state}

    def replica_views(self, model: str | None) -> Sequence[ReplicaView]:
        """Return the replicas, or one model's; what failed last is among them while it still matters."""
        estate = self._estate
        failed = [r for r in estate.replicas.last_failed.values() if self._is_shown(r)]
        chosen = [r for r in (*estate.replicas, *failed) if model is None or r.model == model]
        return [replica_view(estate, r) for r in sorted(chosen, key=lambda r: (r.model, r.id))]

    def _is_shown(self, replica: Replica) -> bool:
        failures = self._estate.failures_of(replica.model)
        is_recent = self._estate.now_s() - failures.failed_s < FAILED_SHOWN_S
        return bool(failures.count) and (is_recent or failures.is_parked)

    def summary(self) -> Summary:
        """Return the fleet in one answer."""
        return summarize(llmgw.__version__, self.nodes(), self.replica_views(None), self.model_lines())

    def placement(self, name: str) -> PlacementView:
        """Return why a model is where it is, or why not. Refused(404) when unknown."""
        estate = self._estate
        definition = estate.catalog[name]
        failures, note = estate.failures_of(name), estate.notes.get(name)
        mine = estate.replicas.of_model(name)
        wait_s = failures.retry_s - estate.now_s()
        is_waiting = failures.count > 0 and not failures.is_parked and wait_s > 0
        return PlacementView(
            model=name,
            wanted=note.desired if note else 0,
            have=len(mine),
            replicas=tuple(self._placed(r) for r in mine),
            profiles=self._profiles(definition, estate.room()),
            waiting_for=model_status(estate, name).reason,
            parked=failures.is_parked,
            failures=failures.count,
            reason=failures.error,
            retry_at=rfc3339(estate.now_unix() + wait_s) if is_waiting else "",
        )

    def _placed(self, replica: Replica) -> PlacedView:
        reason = f"; {replica.word()}: {replica.reason}" if replica.reason else ""
        return PlacedView(
            id=replica.id,
            profile=replica.profile,
            nodes=(replica.node,),
            gpus=gpu_labels(self._estate, replica),
            state=replica.word(),
            why=replica.why + reason,
        )

    def _profiles(self, definition: ModelDefinition, room: Room) -> tuple[ProfilePlacementView, ...]:
        estate = self._estate
        out: list[ProfilePlacementView] = []
        for profile in definition.profiles:
            failures = estate.failures_of(definition.name)
            fit, rejections = fitting(definition, profile, room, failures, estate.now_s())
            out.append(
                ProfilePlacementView(
                    name=profile.name,
                    fits=bool(fit),
                    candidates=tuple(fit),
                    rejections=rejection_views(rejections),
                )
            )
        return tuple(out)
