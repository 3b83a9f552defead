"""The leader's life with its nodes: start, fail, park, retry, scale, lose and find again."""

from __future__ import annotations

import anyio
import pytest

from llmgw.config.refusal import Refused
from llmgw.wire.agent import GPU, FetchProgress, ShardState, StopShard
from tests.control.leader_rig import (
    AUDIT,
    MemoryKeeper,
    Rig,
    breaks,
    heartbeat_of,
    model,
    play,
    register_of,
    works,
)


def test_a_declared_model_is_started_and_routed_to_once_its_node_says_ready() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.answers = lambda node, command: None
        rig.nodes.register("a")
        await rig.until(lambda: rig.nodes.starts())
        start = rig.nodes.starts()[0]
        assert (start.shard_id, start.http_port, start.threads) == ("chat-000000-0", 20000, 2)
        assert start.profile.model_path == "/models/chat.gguf"
        assert rig.leader.replicas() == ()
        rig.nodes.say("a", start.shard_id, ShardState.FETCHING, fetch=FetchProgress(source="x", done_bytes=5))
        view = rig.leader.replica_views("chat")[0]
        assert (view.state, view.fetch.done) == ("fetching", 5)
        version = rig.leader.version()
        rig.nodes.say("a", start.shard_id, ShardState.READY)
        route = rig.leader.replicas()[0]
        assert rig.leader.version() > version
        assert (route.host, route.port, route.api_key) == ("a.example", 20000, start.api_key)
        assert route.metrics_path == "/metrics"
        assert rig.leader.models()[0].status == "serving"

    play(lambda: Rig(model()), scene)


def test_no_node_has_room_and_the_reason_is_told_per_node() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.register("a", cpu_count=1)
        rig.nodes.register("b", engine_versions={})
        await rig.until(lambda: rig.line().status == "waiting for room")
        reasons = {r.node: r.reason for r in rig.leader.placement("chat").profiles[0].rejections}
        assert reasons == {"a": "1 of 1 cores free, needs 2", "b": "no sim"}
        assert rig.line().unplaceable
        assert rig.leader.summary().unplaceable == ("chat",)
        assert rig.line().failures == 0

    play(lambda: Rig(model()), scene)


def test_five_failed_starts_park_a_model_and_a_retry_starts_it_again() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.answers = breaks("it exits 1")
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().parked, within_s=200)
        assert len(rig.nodes.starts()) == 5
        assert rig.line().failures == 5
        assert "it exits 1" in rig.line().reason
        await anyio.sleep(600)
        assert len(rig.nodes.starts()) == 5
        assert rig.leader.summary().parked[0].failures == 5
        assert [e.action for e in rig.keeper.events] == ["model.park"]
        rig.nodes.answers = works
        await rig.leader.retry_model("chat", AUDIT)
        await rig.until(lambda: rig.line().status == "serving")
        assert rig.keeper.parked == {}
        assert rig.line().failures == 0

    play(lambda: Rig(model()), scene)


def test_running_replicas_of_a_parked_model_stay() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().ready == 1)
        rig.nodes.answers = breaks()
        await rig.leader.scale_model("chat", {"min": 2, "max": 2}, AUDIT)
        await rig.until(lambda: rig.line().parked, within_s=200)
        assert rig.line().ready == 1
        assert len(rig.leader.replicas()) == 1

    play(lambda: Rig(model()), scene)


@pytest.mark.covers("L-63")
@pytest.mark.parametrize(
    "error",
    [
        "argument --log-file is not allowed: it writes files",
        "variable LD_PRELOAD is not allowed: only names beginning with CUDA_ are",
        "there is no engine 'x'; the engines are sim",
        "profile cpu: llamacpp runs on one node, not 2",
        "checksum: http://m/x has sha256 0, expected 1",
        "adapter fr: checksum: http://m/x has 3 bytes, its list says 4",
    ],
)
def test_a_failure_that_no_retry_cures_parks_at_once_with_its_sentence(error: str) -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.answers = breaks(error)
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().parked)
        assert len(rig.nodes.starts()) == 1
        assert error in rig.line().reason

    play(lambda: Rig(model()), scene)


def test_a_start_that_failed_on_one_node_goes_to_another_that_can_take_it() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.answers = lambda node, command: (breaks() if node == "a" else works)(node, command)
        rig.nodes.register("a")
        rig.nodes.register("b")
        await rig.until(lambda: rig.line().ready == 1)
        assert [n for n, c in rig.nodes.sent if c in rig.nodes.starts()] == ["a", "b"]

    play(lambda: Rig(model()), scene)


def test_a_dead_replica_is_replaced_and_its_port_rests_for_a_minute() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().ready == 1)
        rig.nodes.say("a", "chat-000000-0", ShardState.FAILED, error="killed by SIGKILL")
        assert rig.leader.replicas() == ()
        await rig.until(lambda: rig.line().ready == 1)
        assert rig.nodes.starts()[1].http_port == 20001
        assert rig.line().failures == 1
        await anyio.sleep(700)
        assert rig.line().failures == 0

    play(lambda: Rig(model()), scene)


@pytest.mark.covers("P-122")
def test_a_late_report_of_an_unknown_shard_is_answered_with_stop_unless_it_stopped() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().ready == 1)
        rig.nodes.register("b")
        rig.nodes.say("a", "ghost-000001-0", ShardState.READY)
        rig.nodes.say("a", "ghost-000002-0", ShardState.UNSPECIFIED)
        rig.nodes.say("a", "ghost-000003-0", ShardState.STOPPED)
        rig.nodes.say("b", "chat-000000-0", ShardState.READY)
        stops = [(n, c.shard_id) for n, c in rig.nodes.sent if isinstance(c, StopShard)]
        assert stops == [("a", "ghost-000001-0"), ("a", "ghost-000002-0"), ("b", "chat-000000-0")]
        assert rig.line().ready == 1

    play(lambda: Rig(model()), scene)


@pytest.mark.covers("F-24")
def test_a_replica_given_up_drains_in_sight_and_is_cut_only_after_drain_timeout() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().ready == 2)
        rig.report(inflight={"chat-000000": 1, "chat-000001": 1})
        await rig.leader.scale_model("chat", {"min": 1, "max": 1}, AUDIT)
        await rig.until(lambda: rig.nodes.drains())
        began = anyio.current_time()
        gone = rig.nodes.drains()[0].removesuffix("-0")
        assert {r.id: r.draining for r in rig.leader.replicas()}[gone] is True
        await anyio.sleep(100)
        assert rig.nodes.stops() == []
        assert next(v.state for v in rig.leader.replica_views(None) if v.id == gone) == "draining"
        await rig.until(lambda: rig.nodes.stops(), within_s=200)
        assert rig.nodes.stops() == [f"{gone}-0"]
        assert 119 <= anyio.current_time() - began < 123

    play(lambda: Rig(model(min=2), drain_timeout=120.0), scene)


@pytest.mark.covers("F-24", "P-60b")
def test_a_drained_replica_stops_as_soon_as_nothing_is_in_flight() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().ready == 2)
        rig.report(inflight={"chat-000000": 1, "chat-000001": 1})
        await rig.leader.scale_model("chat", {"min": 1, "max": 1}, AUDIT)
        await rig.until(lambda: rig.nodes.drains())
        await anyio.sleep(20)
        assert rig.nodes.stops() == []
        rig.report(inflight={})
        await rig.until(lambda: rig.nodes.stops() == rig.nodes.drains())
        await rig.until(lambda: len(rig.leader.replica_views(None)) == 1)

    play(lambda: Rig(model(min=2)), scene)


@pytest.mark.covers("L-21")
def test_requests_that_wait_raise_the_replicas_and_quiet_lowers_them_by_a_drain() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().ready == 1)
        rig.report(waiting={"chat": 9})
        await rig.until(lambda: rig.line().ready == 2, within_s=25)
        rig.report()
        await rig.until(lambda: rig.nodes.drains(), within_s=700)
        await rig.until(lambda: rig.line().total == 1)

    play(lambda: Rig(model(min=1, max=2)), scene)


@pytest.mark.covers("L-21", "L-22")
def test_a_model_on_demand_loads_when_asked_for_and_unloads_when_unused() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.register("a")
        await anyio.sleep(30)
        assert rig.nodes.starts() == []
        assert rig.leader.models()[0].status == "on demand"
        rig.report(arrived={"chat": 3}, waiting={"chat": 3})
        await rig.until(lambda: rig.line().ready == 1)
        rig.report(inflight={"chat-000000": 3})
        await anyio.sleep(300)
        assert rig.line().ready == 1
        rig.report()
        await anyio.sleep(50)
        assert rig.line().ready == 1
        await rig.until(lambda: rig.nodes.drains(), within_s=20)
        await rig.until(lambda: rig.line().total == 0)
        assert len(rig.nodes.starts()) == 1

    play(lambda: Rig(model(min=0, idle_timeout="1m")), scene)


@pytest.mark.covers("L-22")
def test_a_model_on_demand_that_fits_nowhere_counts_as_short_although_its_min_is_0() -> None:
    async def scene(rig: Rig) -> None:
        assert rig.leader.summary().models.short == 0
        rig.report(arrived={"chat": 1}, waiting={"chat": 1})
        await rig.until(lambda: rig.line().desired == 1)
        await rig.until(lambda: rig.leader.summary().unplaceable == ("chat",))
        assert (rig.leader.summary().models.short, rig.line().min, rig.line().failures) == (1, 0, 0)
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().ready == 1)
        assert len(rig.nodes.starts()) == 1

    play(lambda: Rig(model(min=0)), scene)


def test_a_silent_node_is_unreachable_then_lost_and_only_then_replaced() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().ready == 1)
        rig.nodes.live.clear()
        rig.leader.on_link_lost("a")
        rig.nodes.register("b")
        await rig.until(lambda: rig.leader.nodes()[0].state == "unreachable")
        await anyio.sleep(60)
        assert len(rig.leader.replicas()) == 1
        assert rig.nodes.starts("b") == []
        await rig.until(lambda: rig.nodes.starts("b"))
        await rig.until(lambda: rig.line().ready == 1)
        unclaimed = rig.nodes.register("a")
        assert unclaimed == ["chat-000000-0"]
        assert rig.line().ready == 1
        assert rig.leader.nodes()[0].state == "ready"

    play(lambda: Rig(model()), scene)


@pytest.mark.covers("P-30")
def test_a_node_that_returns_in_time_keeps_its_replica() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().ready == 1)
        rig.nodes.live.clear()
        rig.leader.on_link_lost("a")
        await anyio.sleep(40)
        assert rig.nodes.register("a") == []
        await anyio.sleep(100)
        assert len(rig.nodes.starts()) == 1
        assert rig.line().ready == 1

    play(lambda: Rig(model()), scene)


def test_a_start_lost_with_the_link_is_sent_again_and_an_engine_gone_meanwhile_is_replaced() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.answers = lambda node, command: None
        rig.nodes.register("a")
        await rig.until(lambda: rig.nodes.starts())
        rig.nodes.running["a"].clear()
        rig.nodes.register("a")
        assert [s.shard_id for s in rig.nodes.starts()] == ["chat-000000-0"] * 2
        rig.nodes.say("a", "chat-000000-0", ShardState.READY)
        rig.nodes.running["a"].clear()
        rig.nodes.register("a")
        assert rig.leader.replicas() == ()
        assert rig.line().failures == 1

    play(lambda: Rig(model()), scene)


def _restarted(first: Rig, *models: dict[str, object], **control: float) -> Rig:
    rig = Rig(*models, keeper=first.keeper, **control)
    rig.nodes.running = first.nodes.running
    return rig


@pytest.mark.covers("P-22")
def test_a_new_leader_waits_for_known_nodes_and_adopts_what_they_run() -> None:
    first = Rig(model(min=1, max=3))

    async def before(rig: Rig) -> None:
        rig.nodes.register("a")
        rig.nodes.register("b")
        await rig.until(lambda: rig.line().ready == 1)
        await rig.until(lambda: set(rig.keeper.nodes) == {"a", "b"})

    async def after(rig: Rig) -> None:
        rig.nodes.register("b")
        await anyio.sleep(25)
        assert rig.nodes.starts() == []
        assert rig.leader.models()[0].status == "starting"
        assert rig.nodes.register("a") == []
        await anyio.sleep(60)
        assert rig.nodes.starts() == []
        assert rig.line().ready == 1
        assert rig.leader.replicas()[0].id == "chat-000000"
        assert rig.leader.replicas()[0].port == 20000
        assert rig.leader.term() == 2

    play(lambda: first, before)
    play(lambda: _restarted(first, model(min=1, max=3)), after)


def test_a_new_leader_replaces_after_the_grace_what_nobody_reported() -> None:
    keeper = MemoryKeeper()
    keeper.nodes = {"gone": "gone.example"}

    async def scene(rig: Rig) -> None:
        rig.nodes.register("a")
        await anyio.sleep(25)
        assert rig.nodes.starts() == []
        await rig.until(lambda: rig.line().ready == 1)
        assert {n.id: n.state for n in rig.leader.nodes()} == {"a": "ready", "gone": "unreachable"}

    play(lambda: Rig(model(), keeper=keeper), scene)


def test_replicas_that_demand_had_asked_for_outlive_a_restart_of_the_leader() -> None:
    first = Rig(model(min=1, max=3))

    async def before(rig: Rig) -> None:
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().ready == 1)
        rig.report(waiting={"chat": 9})
        await rig.until(lambda: rig.line().ready == 2)

    async def after(rig: Rig) -> None:
        assert rig.nodes.register("a") == []
        await anyio.sleep(200)
        assert rig.line().ready == 2
        assert rig.nodes.drains() == []

    play(lambda: first, before)
    play(lambda: _restarted(first, model(min=1, max=3)), after)


def _changed(**more: object) -> dict[str, object]:
    changed = model(min=1)
    changed["profiles"][0].update(args=["--speed", "2"], **more)
    return changed


@pytest.mark.covers("F-24")
def test_a_changed_definition_rolls_the_new_one_ready_first_then_the_old_drained() -> None:
    first = Rig(model())

    async def before(rig: Rig) -> None:
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().ready == 1)

    async def after(rig: Rig) -> None:
        rig.nodes.answers = lambda node, command: None
        assert rig.nodes.register("a") == []
        await rig.until(lambda: rig.nodes.starts())
        await anyio.sleep(120)
        assert rig.nodes.drains() == []
        assert [r.id for r in rig.leader.replicas()] == ["chat-000000"]
        rig.nodes.answers = works
        rig.nodes.say("a", rig.nodes.starts()[0].shard_id, ShardState.READY)
        await rig.until(lambda: rig.nodes.drains() == ["chat-000000-0"])
        await rig.until(lambda: rig.line().total == 1)
        assert [s.profile.args for s in rig.nodes.starts()] == [["--speed", "2"]]

    play(lambda: first, before)

    def second() -> Rig:
        rig = _restarted(first, _changed())
        rig.leader._draw = lambda: "second"
        return rig

    play(second, after)


def test_a_changed_definition_without_room_for_two_waits_ten_minutes_and_goes_in_place() -> None:
    first = Rig(model())

    async def before(rig: Rig) -> None:
        rig.nodes.register("a", cpu_count=2)
        await rig.until(lambda: rig.line().ready == 1)

    async def after(rig: Rig) -> None:
        rig.nodes.mute = True
        rig.nodes.register("a", cpu_count=2)
        for _ in range(60):
            await anyio.sleep(9.5)
            rig.leader._estate.inventory.heard("a", anyio.current_time(), 0.0)
        assert rig.nodes.drains() == []
        await anyio.sleep(18)
        rig.leader._estate.inventory.heard("a", anyio.current_time(), 0.0)
        await anyio.sleep(15)
        assert rig.nodes.drains() == ["chat-000000-0"]
        rig.leader._estate.inventory.heard("a", anyio.current_time(), 0.0)
        await rig.until(lambda: rig.line().ready == 1 and rig.nodes.starts())

    play(lambda: first, before)
    play(lambda: _restarted(first, _changed()), after)


def test_a_model_added_and_removed_through_the_api_is_kept_and_its_replicas_drain() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.register("a")
        added = await rig.leader.add_model(model("new", min=1), AUDIT)
        assert added["profiles"][0]["tp"] == 1
        assert rig.keeper.models["new"].definition == added
        await rig.until(lambda: rig.line("new").ready == 1)
        with pytest.raises(Refused, match="there is a model 'new' already") as again:
            await rig.leader.add_model(model("new"), AUDIT)
        assert again.value.status == 409
        await rig.leader.remove_model("new", False, AUDIT)
        assert "new" not in rig.keeper.models
        await rig.until(lambda: rig.nodes.drains())
        await rig.until(lambda: rig.leader.replica_views(None) == [])
        with pytest.raises(Refused, match="there is no model 'new'"):
            rig.leader.placement("new")

    play(Rig, scene)


def test_a_declared_model_is_not_removed_through_the_api() -> None:
    async def scene(rig: Rig) -> None:
        with pytest.raises(Refused, match="is declared in the settings") as refused:
            await rig.leader.remove_model("chat", True, AUDIT)
        assert refused.value.status == 409
        rig.nodes.register("a")
        await rig.leader.add_model(model("new", min=1), AUDIT)
        await rig.until(lambda: rig.line("new").ready == 1)
        await rig.leader.remove_model("new", False, AUDIT)
        await rig.until(lambda: [v.model for v in rig.leader.replica_views(None)] == ["chat"])
        assert rig.nodes.drains() == rig.nodes.stops()

    play(lambda: Rig(model()), scene)


def test_scaling_set_at_run_time_outlives_a_restart_and_max_0_stops_a_model() -> None:
    first = Rig(model(min=1, max=2))

    async def before(rig: Rig) -> None:
        rig.nodes.register("a")
        found = await rig.leader.scale_model("chat", {"min": 2}, AUDIT)
        assert (found["min"], found["max"], found["idle_timeout"]) == (2, 2, "15m")
        await rig.until(lambda: rig.line().ready == 2)
        with pytest.raises(Refused, match="max 1 is less than min 2"):
            await rig.leader.scale_model("chat", {"max": 1}, AUDIT)

    async def after(rig: Rig) -> None:
        rig.nodes.register("a")
        assert rig.line().min == 2
        await rig.leader.scale_model("chat", {"max": 0}, AUDIT)
        await rig.until(lambda: rig.line().status == "stopped")
        await rig.until(lambda: rig.line().total == 0)

    play(lambda: first, before)
    play(lambda: _restarted(first, model(min=1, max=2)), after)


@pytest.mark.covers("L-90")
def test_a_cordoned_node_gets_nothing_new_keeps_what_runs_and_stays_cordoned_after_a_restart() -> None:
    first = Rig(model())

    async def before(rig: Rig) -> None:
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().ready == 1)
        await rig.leader.set_cordon("a", True, AUDIT)
        assert rig.leader.nodes()[0].state == "cordoned"
        await rig.leader.scale_model("chat", {"min": 2, "max": 2}, AUDIT)
        await rig.until(lambda: rig.line().status == "short")
        assert rig.line().reason == "profile cpu on a: cordoned"
        assert rig.line().ready == 1
        await rig.until(lambda: rig.keeper.nodes)

    async def after(rig: Rig) -> None:
        assert rig.nodes.register("a") == []
        await anyio.sleep(30)
        assert rig.leader.nodes()[0].state == "cordoned"
        assert rig.line().ready == 1
        await rig.leader.set_cordon("a", False, AUDIT)
        await rig.until(lambda: rig.line().ready == 2)
        with pytest.raises(Refused, match="there is no node 'z'"):
            await rig.leader.set_cordon("z", True, AUDIT)

    play(lambda: first, before)

    def second() -> Rig:
        rig = _restarted(first, model())
        rig.leader._draw = lambda: "second"
        return rig

    play(second, after)


def test_with_the_store_away_changes_are_refused_by_it_and_passes_go_on() -> None:
    async def scene(rig: Rig) -> None:
        rig.keeper.is_away = True
        rig.nodes.register("a")
        await rig.until(lambda: rig.line().ready == 1)
        assert rig.keeper.nodes == {}
        rig.keeper.is_away = False
        await rig.until(lambda: rig.keeper.nodes == {"a": "a.example"})

    play(lambda: Rig(model()), scene)


def test_a_leader_whose_term_is_over_stops_leading_and_leads_again_under_a_new_one() -> None:
    async def scene(rig: Rig) -> None:
        rig.keeper.is_stale = True
        await rig.until(lambda: rig.leader.term() == 2)

    play(lambda: Rig(model()), scene)


def test_logs_are_asked_of_the_node_and_an_unknown_node_is_refused() -> None:
    async def scene(rig: Rig) -> None:
        rig.nodes.register("a")
        assert await rig.leader.node_logs("a", "s", 9_999) == (["a s 5000"], False)
        with pytest.raises(Refused, match="there is no node"):
            await rig.leader.node_logs("z", "", 10)

    play(Rig, scene)


def test_nothing_is_placed_on_memory_others_hold_nor_beyond_what_reservations_leave() -> None:
    card = {"gpu_class": "l4-22g", "memory_total_mb": 22_000}
    on_gpu = model(min=3)
    on_gpu["profiles"] = [{"name": "gpu", "engine": "llamacpp", "gpu_class": "l4-22g", "min_memory_gb": 1}]

    async def scene(rig: Rig) -> None:
        rig.nodes.mute = True
        rig.nodes.answers = lambda node, command: None
        rig.leader.on_register("a", register_of("a", [], gpus=[GPU(index=i, **card) for i in range(3)]), "")
        beat = heartbeat_of("a", gpu_memory_used_mb=[9000, 0, 0], gpu_foreign_memory_mb=[9000, 0, 0])
        rig.leader.on_heartbeat("a", beat)
        rig.nodes.live.add("a")
        await rig.until(lambda: len(rig.nodes.starts()) == 2)
        assert [s.gpu_indices for s in rig.nodes.starts()] == [[1], [2]]
        reason = rig.leader.placement("chat").profiles[0].rejections[0].reason
        assert reason == "0 of 3 free, needs 1; GPU 0: 9000 MiB already allocated by another process"
        classes = rig.leader.nodes()[0].class_gpus[0]
        assert (classes.total, classes.free, classes.unhealthy) == (3, 0, 1)
        rig.leader.on_heartbeat("a", heartbeat_of("a", gpu_memory_used_mb=[0] * 3, gpu_foreign_memory_mb=[0] * 3))
        await rig.until(lambda: len(rig.nodes.starts()) == 3)
        assert rig.nodes.starts()[2].gpu_indices == [0]
        big = model("big", min=2)
        big["profiles"][0]["min_memory_gb"] = 31
        await rig.leader.add_model(big, AUDIT)
        await rig.until(lambda: [s.model for s in rig.nodes.starts()].count("big") == 1)
        reasons = [r.reason for r in rig.leader.placement("big").profiles[0].rejections]
        assert reasons == ["26.8 of 60.8 GB memory free, needs 31.0"]

    play(lambda: Rig(on_gpu), scene)


@pytest.mark.covers("L-2")
def test_a_time_zone_or_port_range_that_is_none_stops_the_server() -> None:
    with pytest.raises(Refused, match="is not a time zone this machine knows"):
        Rig(timezone="Mars/Olympus")
    with pytest.raises(Refused, match=r"control\.port_range"):
        Rig(port_range="x")
