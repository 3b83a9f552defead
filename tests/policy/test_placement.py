"""Where a replica goes, or why nowhere."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.config.model import Profile
from llmgw.policy.candidates import need_of
from llmgw.policy.placement import HEADROOM_CAP, NoRoom, Placed, fitting, headroom, place, verdicts
from llmgw.policy.room import Room, room_of
from llmgw.policy.snapshot import Failures, GPUSeen, NodeSeen, Share
from tests.policy.builds import GIB, definition, node, profile, replica

CHAT = definition()
GPU = definition("big", profiles=[profile("gpu", gpu_class="l4-22g", gpus_per_node=2)])


def put(of: object, *nodes: NodeSeen, room: Room | None = None, failures: Failures | None = None) -> Placed | NoRoom:
    return place(of, room or room_of(nodes, []), failures or Failures(), 1000.0)  # type: ignore[arg-type]


def reason(found: Placed | NoRoom) -> str:
    assert isinstance(found, NoRoom)
    return found.rejections[0].reason


def test_each_filter_gives_its_reason() -> None:
    selective = definition(profiles=[profile(node_selector={"zone": "b"})])
    ill = (GPUSeen(0, "l4-22g", problem="5014 MiB already allocated by another process"), GPUSeen(1, "l4-22g"))
    assert reason(put(CHAT, node("a", state="cordoned"))) == "cordoned"
    assert reason(put(CHAT, node("a", state="lost"))) == "unreachable"
    assert reason(put(selective, node("a", labels={"zone": "a"}))) == "label zone is a, wants b"
    assert reason(put(selective, node("a"))) == "label zone is not set, wants b"
    assert reason(put(CHAT, node("a", engines={}))) == "no llamacpp"
    assert reason(put(CHAT, node("a", engines={}, installing=frozenset({"llamacpp"})))) == "llamacpp is still installing"
    assert reason(put(GPU, node("a"))) == "no GPU of class l4-22g"
    assert reason(put(GPU, node("a", gpus=1))) == "1 of 1 free, needs 2"
    assert reason(put(GPU, node("a", gpus=0).__class__(id="a", engines={"llamacpp": "1"}, gpus=ill))) == (
        "1 of 2 free, needs 2; GPU 0: 5014 MiB already allocated by another process"
    )
    assert reason(put(CHAT, node("a", memory_bytes=2 * GIB))) == "0.0 of 0.0 GB memory free, needs 1.0"
    assert reason(put(CHAT, node("a", cpu_count=1))) == "1 of 1 cores free, needs 2"


def test_the_first_filter_that_fails_is_the_reason() -> None:
    assert reason(put(CHAT, node("a", state="cordoned", engines={}, cpu_count=1))) == "cordoned"


@pytest.mark.covers("L-43")
def test_memory_and_cores_are_what_reservations_leave_not_what_is_measured() -> None:
    small, large = node("s", memory_bytes=10 * GIB), node("l", memory_bytes=100 * GIB)
    room = room_of([small, large], [])
    assert room.nodes["s"].usable_memory_mb() == 8 * 1024
    assert room.nodes["l"].usable_memory_mb() == 95 * 1024
    held = room.taking(Share(node="s", cores=15, memory_mb=8 * 1024 - 1023), "x").nodes["s"]
    assert (held.free_memory_mb(), held.free_cores()) == (1023, 1)
    full = room_of([small], []).taking(Share(node="s", memory_mb=8 * 1024 - 1023), "x")
    assert "memory free" in reason(put(CHAT, room=full))
    busy = room_of([small], []).taking(Share(node="s", cores=15), "x")
    assert reason(put(CHAT, room=busy)) == "1 of 16 cores free, needs 2"


def test_memory_not_given_follows_the_file_when_its_size_is_known() -> None:
    plain = definition(profiles=[profile(min_memory_gb=0)])
    assert need_of(plain, plain.profiles[0], {}).memory_mb == 4096
    assert need_of(plain, plain.profiles[0], {"/m.gguf": 10 * GIB}).memory_mb == 13 * 1024
    assert need_of(GPU, GPU.profiles[0], {"/m.gguf": 10 * GIB}).memory_mb == 1024
    bounded = definition(profiles=[profile()], resources={"min_memory_gb": 2, "cpu_cores": 3})
    need = need_of(bounded, bounded.profiles[0], {})
    assert (need.memory_mb, need.cores) == (2048, 3)


def test_profiles_are_tried_in_order_and_a_lower_one_is_what_to_do_when_the_best_is_busy() -> None:
    both = definition(profiles=[profile("gpu", gpu_class="l4-22g"), profile("cpu")])
    first = put(both, node("a", gpus=1))
    assert isinstance(first, Placed)
    assert (first.profile, first.pool, first.share.gpus) == ("gpu", "l4-22g", (0,))
    second = put(both, node("a"))
    assert isinstance(second, Placed)
    assert (second.profile, second.pool) == ("cpu", "cpu")


@pytest.mark.covers("L-49")
def test_a_placed_replica_keeps_why_it_is_not_elsewhere() -> None:
    found = put(CHAT, node("a", state="cordoned"), node("b"), node("c", engines={}))
    assert isinstance(found, Placed)
    assert [(r.node, r.reason) for r in found.rejections] == [("a", "cordoned"), ("c", "no llamacpp")]
    assert found.why.startswith("the only node that fits")


def racked(node_id: str, rack: str, **more: object) -> NodeSeen:
    return node(node_id, labels={"llmgw.io/rack": rack, "llmgw.io/pdu": f"{rack}-a, {rack}-b"}, **more)


@pytest.mark.covers("L-47", "L-112", "E-188")
def test_nodes_that_fit_are_ordered_by_independence_then_spread_weights_packing_and_id() -> None:
    weights = {"/m.gguf": 5}
    near, far = racked("a", "r1", weights=weights), racked("z", "r2")
    room = room_of([near, racked("b", "r1"), far], [replica(CHAT, "chat-1", "b")])
    assert _node(put(CHAT, room=room)) == "z", "another rack outranks weights"
    assert _node(put(CHAT, room=room_of([near, racked("b", "r1")], [replica(CHAT, "chat-1", "b")]))) == "a"
    only = room_of([racked("b", "r1")], [replica(CHAT, "chat-1", "b")])
    assert _node(put(CHAT, room=only)) == "b", "never a filter"
    assert _node(put(CHAT, room=room_of([node("a"), node("b", weights=weights)], []))) == "b"
    other = definition("other")
    busy = room_of([node("a"), node("b")], [replica(other, "other-1", "a")])
    assert _node(put(CHAT, room=busy)) == "b", "on the CPU the emptier node"
    assert _node(put(GPU, node("a", gpus=4), node("b", gpus=2))) == "b", "GPUs are packed"
    assert _node(put(CHAT, node("b"), node("a"))) == "a"


def _node(found: Placed | NoRoom) -> str:
    assert isinstance(found, Placed), found
    return found.share.node


@pytest.mark.covers("P-121")
def test_an_engine_not_probed_yet_is_not_held_against_a_node_but_a_sure_one_comes_first() -> None:
    unsure = node("a", engines={}, engines_probed=False)
    assert _node(put(CHAT, unsure)) == "a"
    assert _node(put(CHAT, unsure, node("b"))) == "b"


@pytest.mark.covers("L-61")
def test_a_node_that_failed_is_passed_over_for_ten_minutes_when_another_could_take_it() -> None:
    failures = Failures(count=1, nodes={"a": (820.0, "it exits 1")})
    elsewhere = put(CHAT, node("a"), node("b"), failures=failures)
    assert _node(elsewhere) == "b"
    assert isinstance(elsewhere, Placed)
    assert elsewhere.rejections[0].reason == "failed here 3 min ago: it exits 1"
    assert _node(put(CHAT, node("a"), node("b", state="cordoned"), failures=failures)) == "a"
    old = Failures(count=1, nodes={"a": (399.0, "it exits 1")})
    assert _node(put(CHAT, node("a"), node("b"), failures=old)) == "a"
    from llmgw.policy.backoff import after_failure

    delays: list[float] = []
    state = Failures()
    for _ in range(9):
        state = after_failure(state, 0.0, node="a", error="x", lived_s=None, park_after=99)
        delays.append(state.retry_s)
    assert delays == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_what_could_never_fit_is_unfit_and_what_fits_another_time_is_busy() -> None:
    model = definition(profiles=[profile("gpu", gpu_class="h100-80g"), profile("cpu", cpu_cores=16)])
    taken = room_of([node("a")], []).taking(Share(node="a", cores=1), "x")
    assert verdicts(model, taken) == {"gpu": "unfit", "cpu": "busy"}
    found = put(model, room=taken)
    assert isinstance(found, NoRoom)
    assert found.sentence() == "profile cpu on a: 15 of 16 cores free, needs 16"
    assert put(model).sentence() == "there is no node yet"  # type: ignore[union-attr]


@pytest.mark.covers("L-5")
def test_a_mig_class_with_more_than_one_instance_is_refused_by_placement_whatever_got_past() -> None:
    from msgspec.structs import replace

    from llmgw.config.refusal import Refused

    for size in ({"tp": 2}, {"pp": 2}, {"gpus_per_node": 2}, {"nodes": 2, "tp": 2}):
        with pytest.raises(Refused, match="a MIG class takes"):
            definition(source="o/r", profiles=[profile("mig", engine="vllm", gpu_class="a-mig-1g.5gb", **size)])
    for size in ({"tp": 2}, {"pp": 2}, {"gpus_per_node": 2}, {"nodes": 2}):
        wrong = replace(CHAT, profiles=(Profile(**{"name": "m", "engine": "llamacpp", "gpu_class": "a-mig-1g", **size}),))
        assert "a MIG class takes" in reason(put(wrong, node("a", gpus=4, klass="a-mig-1g")))


sizes = st.integers(0, 5)
inventories = st.lists(
    st.builds(
        lambda i, gpus, cores, gib, state: node(f"n{i}", gpus=gpus, cpu_count=cores, memory_bytes=gib * GIB, state=state),
        st.integers(0, 6), sizes, st.integers(1, 8), st.integers(2, 12), st.sampled_from(["ready"] * 4 + ["cordoned"]),
    ),
    max_size=5, unique_by=lambda n: n.id,
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(inventories, st.booleans())
def test_simulation_and_real_placement_agree(nodes: list[NodeSeen], wants_gpus: bool) -> None:
    model = GPU if wants_gpus else CHAT
    promised = headroom(model, room_of(nodes, []))
    replicas = []
    while len(replicas) <= HEADROOM_CAP:
        found = place(model, room_of(nodes, replicas), Failures(), 0.0)
        if isinstance(found, NoRoom):
            break
        replicas.append(replica(model, f"r{len(replicas)}", found.share.node, shares=(found.share,)))
    assert promised == min(len(replicas), HEADROOM_CAP)


def test_fitting_tells_candidates_best_first_and_the_others_reasons() -> None:
    room = room_of([node("a", state="cordoned"), node("b"), node("c", weights={"/m.gguf": 1})], [])
    fit, rejected = fitting(CHAT, CHAT.profiles[0], room, Failures(), 0.0)
    assert fit == ["c", "b"]
    assert [(r.node, r.reason) for r in rejected] == [("a", "cordoned")]
