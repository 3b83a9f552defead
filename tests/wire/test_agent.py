"""The agent protocol's messages: fixed bytes, mixed releases, limits, and whatever a hostile peer may send."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.wire.agent import (
    GPU,
    HCA,
    IMEX,
    BadMessage,
    Bye,
    CachedWeight,
    Compute,
    Control,
    ControlPlanes,
    DrainShard,
    EngineProfile,
    FabricAttachment,
    FetchProgress,
    GPUProblem,
    GPUSensor,
    Heartbeat,
    LogsReply,
    LogsRequest,
    LoraAdapter,
    MIGDevice,
    NodeLoad,
    ProvisionStatus,
    Register,
    Registered,
    RemoveWeights,
    RunningShard,
    ShardLoad,
    ShardState,
    ShardStatus,
    StartShard,
    StopShard,
    UnknownTag,
    decode_agent,
    decode_control,
    encode,
    is_node_id,
)

REGISTER = Register(
    node_id="gpu-01",
    version="0.1.0",
    hostname="gpu-01",
    cpu_count=64,
    labels={"llmgw.io/rack": "r3"},
    gpus=[
        GPU(
            index=1101,
            uuid="MIG-1",
            gpu_class="h100-3g.40gb",
            problems=[GPUProblem(code="ecc", text="uncorrected")],
            mig=MIGDevice(parent_index=1, profile="3g.40gb"),
        )
    ],
    hcas=[HCA(name="mlx5_0", port=1, rate_gbps=400.0)],
    fabrics=[FabricAttachment(fabric="ib-0", kind="ib", hcas=["mlx5_0"])],
    weights=[CachedWeight(source="a", path="/w/a", bytes=5, in_use=True)],
    engine_versions={"llamacpp": "b10068"},
    engines_probed=True,
    provision=[ProvisionStatus(engine="vllm", state="ready")],
    running_shards=[
        RunningShard(
            shard_id="q-1-0", replica_id="q-1", state=ShardState.READY, compute=Compute(backend="CPU")
        )
    ],
)
FROM_AGENTS = [
    REGISTER,
    Heartbeat(
        node_id="gpu-01",
        seq=7,
        gpu_memory_used_mb=[12],
        load=NodeLoad(cpu_percent=1.5, shards=[ShardLoad(shard_id="q-1-0")], gpus=[GPUSensor(index=0)]),
        imex=IMEX(state="READY"),
    ),
    ShardStatus(shard_id="q-1-0", state=ShardState.FETCHING, fetch=FetchProgress(source="x", done_bytes=1)),
    LogsReply(request_id="1", lines=["a", "b"], truncated=True),
]
FROM_CONTROL = [
    Registered(node_id="gpu-01", control_plane="cp-1", leader=True, term=4, heartbeat_interval_ms=5000),
    Bye(code="replaced", reason="newer"),
    ControlPlanes(servers=["https://10.0.0.1:7443"]),
    StartShard(shard_id="q-1-0", profile=EngineProfile(adapters=[LoraAdapter(name="a", source="b")])),
    StopShard(shard_id="q-1-0", grace_ms=5),
    DrainShard(shard_id="q-1-0"),
    LogsRequest(request_id="1", lines=5),
    RemoveWeights(paths=["/w/a"]),
]


def _pack(value: Any) -> bytes:
    return msgspec.msgpack.encode(value)


@pytest.mark.parametrize("message", FROM_AGENTS, ids=lambda message: type(message).__name__)
def test_an_agents_message_survives_its_bytes(message: Any) -> None:
    assert decode_agent(encode(message)) == message


@pytest.mark.parametrize("message", FROM_CONTROL, ids=lambda message: type(message).__name__)
def test_a_command_survives_its_envelope(message: Any) -> None:
    control = Control(msg=message, trace={"traceparent": "00-1-2-01"}, term=9)
    assert decode_control(encode(control)) == control


@pytest.mark.covers("P-40")
def test_the_messages_are_the_maps_of_the_protocols_own_example() -> None:
    register = Register(
        node_id="cpu-07",
        engine_versions={"llamacpp": "b10991"},
        running_shards=[RunningShard(shard_id="s", nnodes=1, state=ShardState.READY)],
    )
    assert msgspec.msgpack.decode(encode(register)) == {
        "t": "register",
        "node_id": "cpu-07",
        "engine_versions": {"llamacpp": "b10991"},
        "running_shards": [{"shard_id": "s", "nnodes": 1, "state": 4}],
    }
    registered = Control(msg=Registered(node_id="cpu-07", control_plane="cp-1", leader=True))
    assert msgspec.msgpack.decode(encode(registered)) == {
        "msg": {"t": "registered", "node_id": "cpu-07", "control_plane": "cp-1", "leader": True}
    }


def test_a_gpus_class_is_called_class_on_the_wire() -> None:
    packed = msgspec.msgpack.decode(encode(Register(gpus=[GPU(gpu_class="h200")])))
    assert packed["gpus"] == [{"class": "h200"}]


@pytest.mark.covers("P-40", "P-41")
def test_releases_mix_since_unknown_fields_are_ignored_and_absent_ones_are_their_defaults() -> None:
    newer = {"t": "heartbeat", "seq": 3, "from_the_future": {"a": [1, {"b": 2}]}}
    assert decode_agent(_pack(newer)) == Heartbeat(seq=3)
    assert decode_agent(_pack({"t": "register"})) == Register()
    assert decode_agent(_pack({"t": "register", "gpus": [{}]})) == Register(gpus=[GPU()])
    assert GPU().numa_node == -1
    assert GPUSensor().ecc_uncorrected == -1
    with pytest.raises(UnknownTag) as unknown:
        decode_agent(_pack({"t": "kv_events", "stored": [1]}))
    assert unknown.value.tag == "kv_events"
    with pytest.raises(UnknownTag):
        decode_control(_pack({"msg": {"t": "firewall", "enabled": True}, "term": 1}))
    assert set(msgspec.msgpack.decode(encode(Heartbeat()))) == {"t"}


@pytest.mark.covers("P-42")
def test_hashes_use_the_whole_of_64_bits_and_text_is_utf8() -> None:
    packed = _pack({"t": "heartbeat", "disk_total_bytes": 2**64 - 1})
    message = decode_agent(packed)
    assert isinstance(message, Heartbeat)
    assert message.disk_total_bytes == 2**64 - 1
    assert encode(message)[-9:] == b"\xcf" + b"\xff" * 8
    name = "узел-ノード-🦙"
    assert decode_agent(encode(Register(hostname=name))) == Register(hostname=name)
    with pytest.raises(BadMessage):
        decode_agent(b"\x82\xa1t\xa8register\xa2os\xa2\xff\xff")


@pytest.mark.covers("P-43")
@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"t": "register", "node_id": "A"}, "node_id"),
        ({"t": "register", "node_id": "a" * 64}, "node_id"),
        ({"t": "register", "node_id": "a\n"}, "node_id"),
        ({"t": "register", "running_shards": [{"shard_id": "x" * 129}]}, "running_shards[0].shard_id"),
        ({"t": "shard", "replica_id": "x" * 129}, "replica_id"),
        ({"t": "register", "os": "x" * 65_537}, "os"),
        ({"t": "register", "os": "é" * 32_769}, "os"),
        ({"t": "register", "gpus": [{"name": "x" * 65_537}]}, "gpus[0].name"),
        ({"t": "register", "labels": {"k": "v" * 65_537}}, "labels[...]"),
        ({"t": "register", "features": ["a"] * 10_001}, "features"),
        ({"t": "register", "gpus": [{}] * 10_001}, "gpus"),
        ({"t": "heartbeat", "gpu_memory_used_mb": [1] * 10_001}, "gpu_memory_used_mb"),
        ({"t": "register", "gpus": [{"index": "one"}]}, "gpus[0].index"),
        ({"t": "shard", "state": 99}, "state"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_over_a_limit_is_refused_with_its_fields_name(message: dict[str, Any], field: str) -> None:
    with pytest.raises(BadMessage) as bad:
        decode_agent(_pack(message))
    assert bad.value.field == field
    assert field in str(bad.value)


@pytest.mark.covers("P-43")
def test_what_is_at_a_limit_passes() -> None:
    register = Register(
        node_id="a" * 63,
        os="x" * 65_536,
        kernel="é" * 32_768,
        features=["a"] * 10_000,
        running_shards=[RunningShard(shard_id="x" * 128)],
    )
    assert decode_agent(encode(register)) == register


@pytest.mark.covers("P-43")
def test_log_text_may_be_longer_than_other_text() -> None:
    reply = LogsReply(request_id="1", lines=["x" * 100_000])
    assert decode_agent(encode(reply)) == reply
    status = ShardStatus(shard_id="s", last_output=["x" * 100_000])
    assert decode_agent(encode(status)) == status


@pytest.mark.parametrize(
    ("node_id", "is_one"),
    [("n1", True), ("0", True), ("a.b_c-d", True), ("-a", False), ("A", False), ("", False), ("a\n", False)],
)
def test_a_node_id_is_lower_case_and_begins_with_a_letter_or_a_digit(node_id: str, is_one: bool) -> None:
    assert is_node_id(node_id) is is_one


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x81\xa1t\xa8register",
        b"\x82\xa1t\xa8register\xa1x" + b"\x91" * 200_000 + b"\xc0",
        b"\x91" * 200_000,
        b"\xdf\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\x82\xa1t\xa8register\xa6labels\xdf\xff\xff\xff\xff",
        encode(Register()) + b"\x00",
    ],
    ids=["empty", "never", "short", "deep", "deeper", "map", "array", "labels", "trailing"],
)
def test_broken_bytes_end_in_one_exception(data: bytes) -> None:
    try:
        decode_agent(data)
    except (BadMessage, UnknownTag):
        pass
    with pytest.raises((BadMessage, UnknownTag)):
        decode_control(data)


@given(st.data())
def test_a_mutated_register_decodes_or_is_refused(data: st.DataObject) -> None:
    recorded = bytearray(encode(REGISTER))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(recorded) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "insert"]))
        if kind == "flip":
            recorded[at] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del recorded[at : at + data.draw(st.integers(1, 20))]
        else:
            recorded[at:at] = data.draw(st.binary(max_size=20))
        if not recorded:
            break
    try:
        json.dumps(msgspec.to_builtins(decode_agent(bytes(recorded))))
    except (BadMessage, UnknownTag):
        pass
