"""What gateways are told: replicas they may send to and models clients may name (`ports.Fleet`)."""

from collections.abc import Mapping

import anyio

from llmgw.config.model import ModelDefinition
from llmgw.control.estate import Estate
from llmgw.control.replicas import Replica
from llmgw.policy.engine_rules import TRAITS
from llmgw.policy.reconcile import Note
from llmgw.policy.snapshot import DRAINING, SERVING, STARTING
from llmgw.policy.status import STOPPED, Status, status
from llmgw.ports import ModelRoute, ReplicaRoute


class RouteBoard:
    """The routes as of the last `publish`. `version` grows only when something a gateway sees has changed."""

    def __init__(self, estate: Estate) -> None:
        self._estate = estate
        self._models: tuple[ModelRoute, ...] = ()
        self._replicas: tuple[ReplicaRoute, ...] = ()
        self._version = 1
        self._moved = anyio.Event()

    def version(self) -> int:
        """Return the number of the routes as they are."""
        return self._version

    async def changed(self, after: int) -> int:
        """Wait until `version() > after` and return it."""
        while self._version <= after:
            await self._moved.wait()
        return self._version

    def models(self) -> tuple[ModelRoute, ...]:
        """Return the models clients may name, sorted by name."""
        return self._models

    def replicas(self) -> tuple[ReplicaRoute, ...]:
        """Return the replicas that may be sent requests, draining ones marked."""
        return self._replicas

    def publish(self) -> None:
        """Bring the routes up to the leader's book."""
        estate = self._estate
        models = tuple(model_route(estate, d) for d in estate.catalog)
        replicas = tuple(_replica_route(estate, r) for r in estate.replicas if r.phase in (SERVING, DRAINING))
        if (models, replicas) != (self._models, self._replicas):
            self._models, self._replicas = models, replicas
            self._version += 1
            self._moved.set()
            self._moved = anyio.Event()


def model_status(estate: Estate, model: str) -> Status:
    """Return how a model stands now (L-95)."""
    mine = estate.replicas.of_model(model)
    is_stopped = estate.catalog[model].scaling.max == 0
    note = estate.notes.get(model)
    if note is None:
        return Status(STOPPED) if is_stopped else Status("starting")
    return status(
        Note(desired=0, most=0) if is_stopped else note,
        estate.failures_of(model),
        ready=sum(r.phase == SERVING for r in mine),
        starting=sum(r.phase == STARTING for r in mine),
        now_s=estate.now_s(),
    )


def model_route(estate: Estate, definition: ModelDefinition) -> ModelRoute:
    """Return what gateways know of a model."""
    standing = model_status(estate, definition.name)
    return ModelRoute(
        name=definition.name,
        status=standing.word,
        created_unix=int(estate.catalog.added_unix(definition.name)),
        aliases=definition.aliases,
        adapters=tuple(a.name for a in definition.adapters),
        adapter_scales=tuple(a.scale for a in definition.adapters),
        role=definition.role,
        capabilities=definition.capabilities,
        reason=_steady(standing.reason),
        on_demand=definition.scaling.min == 0,
        fallbacks=definition.fallbacks,
    )


def _steady(reason: str) -> str:
    """Leave out the seconds that tick: a route that changed each second would be sent each second."""
    return reason.partition("; next try in ")[0]


def _replica_route(estate: Estate, replica: Replica) -> ReplicaRoute:
    node = estate.inventory.get(replica.node)
    return ReplicaRoute(
        id=replica.id,
        model=replica.model,
        pool=replica.pool,
        engine=replica.engine,
        host=node.address if node else "",
        port=replica.port,
        api_key=estate.key_of(replica.id),
        served_name=replica.model,
        metrics_path=_metrics_path(replica.engine),
        draining=replica.phase == DRAINING,
    )


def _metrics_path(engine: str) -> str:
    traits: Mapping[str, object] = TRAITS
    return TRAITS[engine].metrics_path if engine in traits else "/metrics"
