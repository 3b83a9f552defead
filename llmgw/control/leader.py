"""The leader: hears the agents, decides once per pass, carries it out (23 section 2, 20 section 12).

Everything runs on one event loop and every handler returns at once, so the book never changes inside a pass. A pass is
read, decide, apply: the deciding is `policy.reconcile` and knows nothing of clocks, links or the store. Passes run every
2 s and after any event, at most twenty a second, so that a storm of reports costs one pass and not one each.

With the store away it goes on leading: nobody else could take the lease either. What could not be kept (a node seen
for the first time, a model that was parked) is kept by a later pass.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
from anyio.abc import TaskStatus

from llmgw.config.refusal import Refused
from llmgw.config.server import ServerConfig
from llmgw.control import adoption, apply
from llmgw.control.estate import AgentCommands, Draw, Estate, random_suffix
from llmgw.control.fleet import FleetViews
from llmgw.control.fleet_admin import FleetChanges
from llmgw.control.keeper import Keeper, Kept, StoreKeeper
from llmgw.control.replicas import Replica
from llmgw.control.routes import RouteBoard
from llmgw.obs.log import get
from llmgw.policy import backoff, reconcile
from llmgw.policy.snapshot import LOST, SERVING, STARTING, Failures
from llmgw.ports import AuditEvent, ModelRoute, ReplicaRoute, Report, StoreUnavailable
from llmgw.store.loop import Store
from llmgw.wire.admin import ModelLine, NodeView, PlacementView, ReplicaView, Summary
from llmgw.wire.agent import Heartbeat, Register, ShardState, ShardStatus, StopShard

PASS_EVERY_S = 2.0
PASS_AT_MOST_EVERY_S = 0.05
RENEW_EVERY_S = 5.0
LEAD_AGAIN_S = 1.0
KEEP_S = 5.0
_LIVING = frozenset({ShardState.PENDING, ShardState.FETCHING, ShardState.STARTING, ShardState.READY})


class Leader:
    """Implements `LinkEvents`, `ports.Fleet` and `ports.FleetAdmin`. Raises Refused for a configuration it cannot run.

    `store`: the store, or a Keeper. `wall`: the calendar clock, Unix seconds. `draw`: a replica id's last characters.
    """

    def __init__(
        self,
        config: ServerConfig,
        store: Store | Keeper,
        *,
        name: str = "",
        wall: Callable[[], float] = time.time,
        draw: Draw = random_suffix,
    ) -> None:
        self._name = name or config.name or "control-plane"
        self._keeper: Keeper = StoreKeeper(store) if isinstance(store, Store) else store
        self._estate = Estate(config, anyio.current_time, wall)
        self._draw = draw
        self._wake = anyio.Event()
        self._routes = RouteBoard(self._estate)
        self._views = FleetViews(self._estate)
        self._changes = FleetChanges(self._estate, self._keeper, self.wake)
        self._is_store_away = False

    def attach(self, links: AgentCommands) -> None:
        """Give the leader the agents' links, which are made with the leader as their events."""
        self._estate.links = links

    def term(self) -> int:
        """Return the fencing term, 0 while not leading."""
        return self._estate.term

    def is_leading(self) -> bool:
        """Return whether this control plane leads."""
        return self._estate.term > 0

    def wake(self) -> None:
        """Have a pass run now."""
        self._wake.set()

    # The service.

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Take the lease and lead until cancelled; when another takes it over, wait for it again."""
        task_status.started()
        while True:
            await self._take_lead()
            async with anyio.create_task_group() as group:
                group.start_soon(self._hold_lead, group.cancel_scope)
                group.start_soon(self._passes)

    async def _take_lead(self) -> None:
        while True:
            try:
                kept = await self._keeper.lead(self._name)
            except StoreUnavailable as away:
                self._note_store(str(away))
                kept = None
            if kept is not None:
                self._note_store("")
                self._begin(kept)
                return
            await anyio.sleep(LEAD_AGAIN_S)

    def _begin(self, kept: Kept) -> None:
        """Start from what the store holds, with no node registered (P-31)."""
        estate = self._estate
        now_s, now_unix = estate.now_s(), estate.now_unix()
        estate.engine_secret = kept.engine_secret
        estate.catalog.load(kept)
        for problem in estate.catalog.problems:
            _log().error("stored model left out", why=problem)
        for node_id, address in kept.nodes.items():
            estate.inventory.remember(node_id, address, now_s, now_unix)
        for node in estate.inventory:
            by, drain = kept.cordons.get(node.id, ("", False))
            estate.inventory.cordon(node.id, by, drain=drain)
        for model, (count, reason) in kept.parked.items():
            if model in estate.catalog and not estate.catalog.is_declared(model):
                estate.failures[model] = Failures(count=count, error=reason, is_parked=True)
        estate.settles_at_s = now_s + estate.settings.adopt_grace
        estate.term = kept.term
        _log().info("leading", term=kept.term, models=len(list(estate.catalog)), nodes=len(kept.nodes))

    async def _hold_lead(self, leading: anyio.CancelScope) -> None:
        try:
            while True:
                await anyio.sleep(RENEW_EVERY_S)
                try:
                    if not await self._keeper.renew(self._estate.term):
                        _log().error("another control plane leads now", term=self._estate.term)
                        self._estate.term = 0
                        leading.cancel()
                        return
                    self._note_store("")
                except StoreUnavailable as away:
                    self._note_store(str(away))
        finally:
            await self._let_go()

    async def _let_go(self) -> None:
        """Give the lease up at the end, so that the next need not wait for it to run out."""
        if not self._estate.term:
            return
        with anyio.move_on_after(KEEP_S, shield=True):
            try:
                await self._keeper.release(self._estate.term)
            except StoreUnavailable:
                pass

    async def _passes(self) -> None:
        while True:
            self._wake = anyio.Event()
            self.pass_once()
            await self._keep()
            await anyio.sleep(PASS_AT_MOST_EVERY_S)
            with anyio.move_on_after(PASS_EVERY_S):
                await self._wake.wait()

    def pass_once(self) -> reconcile.Plan:
        """Read, decide, apply, and tell the gateways."""
        estate = self._estate
        for node in estate.inventory.refresh(estate.now_s(), estate.now_unix()):
            report = _log().warning if node.state == LOST else _log().info
            report("node state", node=node.id, state=node.state)
        self._clear_outlived()
        plan = reconcile.plan(estate.snapshot())
        apply.apply(estate, plan, self._draw)
        apply.send_again(estate)
        self._routes.publish()
        if plan.is_partial:
            self.wake()
        return plan

    def _clear_outlived(self) -> None:
        """Forget failures that a later replica has outlived by ten minutes (L-60)."""
        estate = self._estate
        for model, failures in list(estate.failures.items()):
            since = [r.ready_s for r in estate.replicas.of_model(model) if r.ready_s is not None]
            for ready_s in since:
                failures = backoff.after_ready(failures, ready_s, estate.now_s())
            if failures.count:
                estate.failures[model] = failures
            else:
                estate.forgive(model)

    async def _keep(self) -> None:
        """Keep what events left to keep. What fails stays for the next pass."""
        estate = self._estate
        try:
            for node_id, address in list(estate.nodes_to_keep.items()):
                await self._keeper.remember_node(estate.term, node_id, address)
                if estate.nodes_to_keep.get(node_id) == address:
                    del estate.nodes_to_keep[node_id]
            for model in list(estate.parked_to_keep):
                failures = estate.failures_of(model)
                event = _parked_event(model, failures, estate.now_unix(), self._name)
                await self._keeper.park(estate.term, model, failures.count, failures.error, event)
                estate.parked_to_keep.discard(model)
        except StoreUnavailable as away:
            self._note_store(str(away))
        except Refused:
            pass  # The term is over; the renewal says so and ends this leadership.

    def _note_store(self, away: str) -> None:
        """Say once that the store went away, and once that it is back."""
        if bool(away) != self._is_store_away:
            self._is_store_away = bool(away)
            if away:
                _log().warning("the store cannot be asked; going on with what is known", why=away)
            else:
                _log().info("the store answers again")

    # LinkEvents.

    def on_register(self, node_id: str, register: Register, peer_address: str) -> Sequence[str]:
        """Take a node's description; return the ids of running shards that nobody wants."""
        estate = self._estate
        known = estate.inventory.get(node_id)
        address = known.address if known else ""
        node = estate.inventory.registered(register, peer_address, estate.now_s(), estate.now_unix())
        if node.address != address:
            estate.nodes_to_keep[node_id] = node.address
        unclaimed = adoption.take_over(estate, node, register.running_shards)
        _log().info("node registered", node=node_id, address=node.address, running=len(register.running_shards))
        self._routes.publish()
        self.wake()
        return unclaimed

    def on_heartbeat(self, node_id: str, heartbeat: Heartbeat) -> None:
        """Take a heartbeat of the node's present link."""
        estate = self._estate
        if estate.inventory.heartbeat(heartbeat, estate.now_s(), estate.now_unix()):
            self.wake()

    def on_shard(self, node_id: str, status: ShardStatus) -> None:
        """Take a shard's report (P-122, P-123)."""
        estate = self._estate
        estate.inventory.heard(node_id, estate.now_s(), estate.now_unix())
        replica = estate.replicas.by_shard(status.shard_id)
        if replica is None or replica.node != node_id:
            self._unknown_shard(node_id, status)
            return
        replica.compute = status.compute or replica.compute
        if status.state is ShardState.UNSPECIFIED or status.state is ShardState.FETCHING:
            replica.fetch = status.fetch or replica.fetch
        if status.state in _LIVING:
            was = (replica.phase, replica.state)
            adoption.moved(estate, replica, status.state)
            if (replica.phase, replica.state) == was:
                return
            if replica.phase == SERVING:
                _log().info("replica ready", replica=replica.id, node=node_id)
        elif status.state is ShardState.STOPPED or status.state is ShardState.FAILED:
            self._ended(replica, status)
        else:
            return
        self._routes.publish()
        self.wake()

    def _unknown_shard(self, node_id: str, status: ShardStatus) -> None:
        """Answer a late report with `stop`, unless the shard has ended anyway."""
        if status.state not in (ShardState.STOPPED, ShardState.FAILED):
            stop = StopShard(shard_id=status.shard_id, reason="no replica of that id is wanted on this node")
            self._estate.links.send(node_id, stop)

    def _ended(self, replica: Replica, status: ShardStatus) -> None:
        """A shard has ended: as asked, or as a failure that counts (L-60)."""
        estate = self._estate
        if replica.phase not in (STARTING, SERVING):
            estate.release(replica)
            word = "replica failed while it was leaving" if status.error else "replica stopped"
            _log().info(word, replica=replica.id, error=status.error)
            return
        error = status.error or "the engine stopped without being asked to"
        failures = estate.fail(replica, error)
        _log().warning("replica failed", replica=replica.id, node=replica.node, error=error, failures=failures.count)
        if failures.is_parked:
            _log().error("model parked", model=replica.model, failures=failures.count, error=error)

    def on_link_lost(self, node_id: str) -> None:
        """Learn that the node's link ended. Its engines serve on (P-30); silence decides what follows (P-32)."""
        _log().info("node disconnected", node=node_id)
        self.wake()

    # ports.Fleet.

    def version(self) -> int:
        """Return a number that grows whenever routes or models change."""
        return self._routes.version()

    async def changed(self, after: int) -> int:
        """Wait until `version() > after` and return it."""
        return await self._routes.changed(after)

    def models(self) -> tuple[ModelRoute, ...]:
        """Return the models clients may name, sorted by name."""
        return self._routes.models()

    def replicas(self) -> tuple[ReplicaRoute, ...]:
        """Return the replicas that may be sent requests."""
        return self._routes.replicas()

    def demand(self, report: Report) -> None:
        """Take what one gateway tells. A model asked for that has no replica gets a pass at once."""
        estate = self._estate
        asked = estate.demand.take(report, estate.now_s())
        if any(not estate.replicas.of_model(model) for model in asked):
            self.wake()

    # ports.FleetAdmin.

    def nodes(self) -> Sequence[NodeView]:
        """Return every node known, by id."""
        return self._views.nodes()

    def model_lines(self) -> Sequence[ModelLine]:
        """Return every model, by name."""
        return self._views.model_lines()

    def model_definition(self, name: str) -> Mapping[str, Any]:
        """Return one definition as plain data, plus `state`. Refused(404)."""
        return self._views.model_definition(name)

    def replica_views(self, model: str | None) -> Sequence[ReplicaView]:
        """Return every replica, or one model's."""
        return self._views.replica_views(model)

    def placement(self, name: str) -> PlacementView:
        """Return why a model is where it is, or why not. Refused(404)."""
        return self._views.placement(name)

    def summary(self) -> Summary:
        """Return the fleet in one answer."""
        return self._views.summary()

    async def add_model(self, definition: Mapping[str, Any], audit: AuditEvent) -> Mapping[str, Any]:
        """Validate and keep a model. Refused 400, 409, 501, 503."""
        return await self._changes.add_model(definition, audit)

    async def remove_model(self, name: str, force: bool, audit: AuditEvent) -> None:
        """Forget a model; its replicas drain and stop. Refused 404, 409, 503."""
        await self._changes.remove_model(name, force, audit)

    async def scale_model(self, name: str, change: Mapping[str, Any], audit: AuditEvent) -> Mapping[str, Any]:
        """Set any of min, max, idle_timeout. Refused 400, 404, 503."""
        return await self._changes.scale_model(name, change, audit)

    async def retry_model(self, name: str, audit: AuditEvent) -> None:
        """Clear a model's failures and parked state. Refused 404, 503."""
        await self._changes.retry_model(name, audit)

    async def set_cordon(self, node_id: str, cordoned: bool, audit: AuditEvent) -> None:
        """Keep new replicas off a node, or stop doing so. Refused 404, 503."""
        await self._changes.set_cordon(node_id, cordoned, audit)

    async def node_logs(self, node_id: str, shard_id: str, lines: int) -> tuple[Sequence[str], bool]:
        """Return log lines of a shard or the agent. Refused 404, 503."""
        return await self._changes.node_logs(node_id, shard_id, lines)


def _parked_event(model: str, failures: Failures, now_unix: float, control_plane: str) -> AuditEvent:
    return AuditEvent(
        at_unix=now_unix,
        actor="system",
        source="system",
        action="model.park",
        target=f"model:{model}",
        result="ok",
        control_plane=control_plane,
        fields=("failures", "reason"),
        after={"failures": failures.count, "reason": failures.error},
    )


def _log() -> Any:
    """Return the logger as it is configured now."""
    return get("control.leader")
