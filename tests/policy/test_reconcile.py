"""One pass, as rules over random fleets and as scenes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from llmgw.policy.reconcile import Drain, Place, Plan, Release, Stop, plan
from llmgw.policy.snapshot import (
    Failures,
    Load,
    Memory,
    ModelSeen,
    NodeSeen,
    ReplicaSeen,
    ScaleState,
    Snapshot,
)
from tests.policy.builds import GIB, definition, node, profile, replica


def shot(*models: Any, nodes: Any = (), replicas: Any = (), now: float = 1000.0, **more: Any) -> Snapshot:
    seen = tuple(m if isinstance(m, ModelSeen) else ModelSeen(definition=m) for m in models)
    return Snapshot(now_s=now, now_unix=1e9, models=seen, nodes=tuple(nodes), replicas=tuple(replicas), **more)


def kinds(found: Plan) -> list[str]:
    return [type(a).__name__ for a in found.actions]


def test_a_pass_with_nothing_to_do_does_nothing() -> None:
    chat = definition()
    assert plan(shot(chat, nodes=[node("a")], replicas=[replica(chat, "c-1", "a")])).actions == ()


def test_while_agents_may_still_report_nothing_is_started() -> None:
    assert plan(shot(definition(), nodes=[node("a")], is_settling=True)).actions == ()


def test_critical_models_are_placed_first_then_those_that_waited_longest() -> None:
    room = node("a", cpu_count=4)
    late = ModelSeen(definition=definition("late"), memory=Memory(short_since_s=900.0))
    early = ModelSeen(definition=definition("z-early"), memory=Memory(short_since_s=800.0))
    firm = ModelSeen(definition=definition("z-firm", **{"class": "critical"}))
    found = plan(shot(late, early, firm, nodes=[room]))
    assert [a.placed.model for a in found.actions if isinstance(a, Place)] == ["z-firm", "z-early"]
    assert found.notes["late"].no_room is not None


@pytest.mark.covers("L-64")
def test_waiting_for_room_is_no_failure_however_long() -> None:
    chat, memory = definition(profiles=[profile(cpu_cores=64)]), Memory()
    for step in range(500):
        seen = ModelSeen(definition=chat, memory=memory)
        found = plan(shot(seen, nodes=[node("a")], now=1000.0 + 60 * step))
        memory = found.memories["chat"]
        assert found.actions == ()
        assert found.notes["chat"].no_room is not None
    assert memory.short_since_s == 1000.0


def test_a_parked_model_and_one_whose_retry_is_not_due_are_not_started() -> None:
    for failures in (Failures(count=5, is_parked=True), Failures(count=1, retry_s=1001.0)):
        seen = ModelSeen(definition=definition(), failures=failures)
        assert plan(shot(seen, nodes=[node("a")])).actions == ()


def test_replicas_of_a_lost_node_are_released_and_replaced_in_the_same_pass() -> None:
    chat = definition()
    nodes = [node("a", state="lost"), node("b")]
    found = plan(shot(chat, nodes=nodes, replicas=[replica(chat, "c-1", "a")]))
    assert kinds(found) == ["Release", "Place"]
    unreachable = [node("a", state="unreachable"), node("b")]
    assert plan(shot(chat, nodes=unreachable, replicas=[replica(chat, "c-1", "a")])).actions == ()


def test_a_drained_replica_stops_when_quiet_and_at_the_latest_after_the_timeout() -> None:
    chat = definition(scaling={"min": 1})
    kept = replica(chat, "c-0", "a")
    leaving = replica(chat, "c-1", "a", "draining", draining_s=900.0, inflight=1, is_quiet=True)
    assert plan(shot(chat, nodes=[node("a")], replicas=[kept, leaving])).actions == ()
    quiet = replace(leaving, inflight=0)
    assert kinds(plan(shot(chat, nodes=[node("a")], replicas=[kept, quiet]))) == ["Stop"]
    fresh = replace(quiet, is_quiet=False)
    assert plan(shot(chat, nodes=[node("a")], replicas=[kept, fresh])).actions == ()
    late = shot(chat, nodes=[node("a")], replicas=[kept, leaving], drain_timeout_s=100.0)
    assert plan(late).actions == (Stop("c-1", "1 requests still in flight after 100 s"),)


def test_victims_are_starting_first_then_on_cordoned_nodes_then_most_idle_then_newest() -> None:
    chat = definition(scaling={"min": 4, "max": 4})
    nodes = [node("a"), node("b", state="cordoned")]
    pool = [
        replica(chat, "busy", "a", inflight=2, started_s=5),
        replica(chat, "old", "a", idle_s=10, started_s=1),
        replica(chat, "new", "a", idle_s=10, started_s=2),
        replica(chat, "idle", "a", idle_s=99, started_s=1),
        replica(chat, "cordoned", "b", inflight=9),
        replica(chat, "starting", "a", "starting"),
    ]
    order: list[str] = []
    for keep in (5, 4, 3, 2, 1):
        less = replace(chat, scaling=replace(chat.scaling, min=keep, max=keep))
        (gone,) = plan(shot(less, nodes=nodes, replicas=pool)).actions
        assert isinstance(gone, Stop if not order else Drain)
        order.append(gone.replica)
        pool = [r for r in pool if r.id != gone.replica]
    assert order == ["starting", "cordoned", "idle", "new", "old"]
    leaving = replica(chat, "last", "a", "draining", draining_s=999.0, inflight=1)
    still = shot(replace(chat, scaling=replace(chat.scaling, min=0, max=0)), nodes=nodes, replicas=[leaving])
    assert plan(still).actions == ()
    assert plan(replace(still, now_s=1600.0)).actions[0] == Stop("last", "1 requests still in flight after 600 s")


class Fleet(RuleBasedStateMachine):
    """A fleet that carries out what passes decide, while nodes, demand and failures do as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.nodes: dict[str, NodeSeen] = {}
        self.replicas: dict[str, ReplicaSeen] = {}
        self.memories: dict[str, Memory] = {}
        self.failures: dict[str, Failures] = {}
        self.loads: dict[str, Load] = {}
        self.serial = 0
        self.models = {
            "cpu": definition("cpu", scaling={"min": 1, "max": 3}),
            "firm": definition("firm", **{"class": "critical"}, scaling={"min": 2}),
            "gpu": definition("gpu", profiles=[profile("g", gpu_class="l4-22g", gpus_per_node=2), profile("c")]),
            "lazy": definition("lazy", scaling={"min": 0, "max": 1, "idle_timeout": 60}),
        }

    def snapshot(self) -> Snapshot:
        models = tuple(
            ModelSeen(
                definition=d,
                load=self.loads.get(n, Load()),
                failures=self.failures.get(n, Failures()),
                memory=self.memories.get(n, Memory()),
            )
            for n, d in sorted(self.models.items())
        )
        return Snapshot(
            now_s=self.now, now_unix=1e9 + self.now, nodes=tuple(self.nodes.values()), models=models,
            replicas=tuple(self.replicas.values()),
        )  # fmt: skip

    @rule(name=st.sampled_from("abc"), gpus=st.integers(0, 4), cores=st.integers(1, 8), gib=st.integers(3, 12))
    def join(self, name: str, gpus: int, cores: int, gib: int) -> None:
        if name not in self.nodes:
            self.nodes[name] = node(name, gpus=gpus, cpu_count=cores, memory_bytes=gib * GIB)

    @rule(name=st.sampled_from("abc"), state=st.sampled_from(["ready", "cordoned", "unreachable", "lost"]))
    def turn(self, name: str, state: str) -> None:
        if name in self.nodes:
            self.nodes[name] = replace(self.nodes[name], state=state)

    @rule(model=st.sampled_from(["cpu", "lazy"]), waiting=st.integers(0, 20))
    def ask(self, model: str, waiting: int) -> None:
        self.loads[model] = Load(waiting=waiting, last_used_s=self.now if waiting else None)

    @rule(model=st.sampled_from(["cpu", "firm", "gpu"]), speed=st.integers(1, 3))
    def change(self, model: str, speed: int) -> None:
        of = self.models[model]
        best = replace(of.profiles[0], args=("--batch-size", str(speed)))
        self.models[model] = replace(of, profiles=(best, *of.profiles[1:]))

    @rule(data=st.data(), dies=st.booleans())
    def report(self, data: st.DataObject, dies: bool) -> None:
        starting = sorted(r.id for r in self.replicas.values() if r.phase == "starting")
        if starting:
            chosen = data.draw(st.sampled_from(starting))
            if dies:
                del self.replicas[chosen]
            else:
                self.replicas[chosen] = replace(self.replicas[chosen], phase="ready", ready_s=self.now)

    @rule()
    def stopped(self) -> None:
        self.replicas = {i: r for i, r in self.replicas.items() if r.phase != "stopping"}

    @rule(wait_s=st.sampled_from([1.0, 20.0, 700.0]))
    def wait(self, wait_s: float) -> None:
        self.now += wait_s

    @rule()
    def run(self) -> None:
        snapshot = self.snapshot()
        found = plan(snapshot)
        assert plan(snapshot) == found, "the same snapshot gives the same plan"
        ready_before = {r.id for r in self.replicas.values() if r.phase == "ready"}
        self.memories = found.memories
        for action in found.actions:
            self._apply(action)
        for gone in ready_before & {a.replica for a in found.actions if isinstance(a, Stop)}:
            raise AssertionError(f"{gone} served and was stopped without a drain")

    def _apply(self, action: Any) -> None:
        if isinstance(action, Place):
            self.serial += 1
            placed, of = action.placed, self.models[action.placed.model]
            assert self.nodes[placed.share.node].state == "ready"
            self.replicas[f"r{self.serial}"] = replica(
                of, f"r{self.serial}", placed.share.node, "starting", profile=placed.profile,
                fingerprint=placed.fingerprint, shares=(placed.share,), started_s=self.now,
            )  # fmt: skip
        elif isinstance(action, Release):
            del self.replicas[action.replica]
        else:
            phase = "draining" if isinstance(action, Drain) else "stopping"
            found = self.replicas[action.replica]
            self.replicas[action.replica] = replace(found, phase=phase, draining_s=self.now, is_quiet=True)

    @invariant()
    def what_is_reserved_fits_and_a_card_has_one_owner(self) -> None:
        for n in self.nodes.values():
            shares = [s for r in self.replicas.values() for s in r.shares if s.node == n.id]
            held = [g for s in shares for g in s.gpus]
            total_mb = n.memory_bytes // 1024**2
            assert len(held) == len(set(held)) <= len(n.gpus)
            assert sum(s.cores for s in shares) <= n.cpu_count
            assert sum(s.memory_mb for s in shares) <= total_mb - max(2048, total_mb // 20)

    @invariant()
    def no_more_run_than_one_above_what_a_model_may_have(self) -> None:
        for name, of in self.models.items():
            living = [r for r in self.replicas.values() if r.model == name and r.phase in ("starting", "ready")]
            assert len(living) <= of.scaling.max + 1


Fleet.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestFleet = Fleet.TestCase


def test_scaling_that_was_remembered_goes_on() -> None:
    chat = definition(scaling={"min": 1, "max": 3})
    seen = ModelSeen(definition=chat, memory=Memory(scale=ScaleState(target=2)))
    assert kinds(plan(shot(seen, nodes=[node("a")]))) == ["Place", "Place"]


def test_a_catalog_that_starts_all_at_once_takes_several_passes() -> None:
    many = [definition(f"m{i:02d}") for i in range(40)]
    nodes = [node(f"n{i:02d}") for i in range(40)]
    first = plan(shot(*many, nodes=nodes))
    assert (len(first.actions), first.is_partial) == (32, True)
    running = [replica(many[i], f"r{i}", f"n{i:02d}", "starting") for i in range(32)]
    second = plan(shot(*many, nodes=nodes, replicas=running))
    assert (len(second.actions), second.is_partial) == (8, False)


def test_models_that_fit_nowhere_do_not_keep_the_others_waiting_nor_the_passes_running() -> None:
    stuck = [definition(f"a{i:02d}", profiles=[profile(cpu_cores=64)]) for i in range(40)]
    found = plan(shot(*stuck, definition("z"), nodes=[node("n")]))
    assert [a.placed.model for a in found.actions if isinstance(a, Place)] == ["z"]
    assert not found.is_partial
