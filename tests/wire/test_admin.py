from __future__ import annotations

import json

import msgspec
import pytest

from llmgw.wire.admin import LoadView, ModelLine, NodeView, ReplicaView, Summary, rfc3339


@pytest.mark.covers("C-10")
@pytest.mark.parametrize(
    ("unix", "text"),
    [(0, "1970-01-01T00:00:00Z"), (1.5, "1970-01-01T00:00:01.500Z"), (1769860800.0004, "2026-01-31T12:00:00Z")],
)
def test_times_are_rfc_3339_in_utc(unix: float, text: str):
    assert rfc3339(unix) == text


def test_plain_fields_are_written_empty_or_not_and_optional_ones_only_when_they_say_something():
    node = json.loads(msgspec.json.encode(NodeView(id="n", address="a", state="ready")))
    assert node["warnings"] == []
    assert node["labels"] == {}
    assert node["gpu_total"] == 0
    assert not {"held", "load", "gpus", "last_seen"} & set(node)


def test_nothing_is_ever_null():
    replica = ReplicaView(id="r", model="m", profile="p", engine="e", state="ready")
    for view in (Summary(), replica, ModelLine(name="m", status="short"), LoadView(cpu_percent=0, memory_percent=0)):
        assert b"null" not in msgspec.json.encode(view)


def test_an_older_and_a_newer_release_read_one_another():
    assert msgspec.json.decode(b'{"name":"m","status":"serving","new_field":[1]}', type=ModelLine).klass == "standard"
    assert msgspec.json.decode(b"{}", type=Summary).nodes.total == 0
