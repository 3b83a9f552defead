"""F-8: whatever the engine sent, clients that join fragments by index get each call whole."""

import json
from typing import Any

import pytest

from llmgw.wire.openai_tool_calls import ToolCalls


def fragment(arguments: str | None = None, **members: Any) -> dict[str, Any]:
    function: dict[str, Any] = {}
    if "name" in members:
        function["name"] = members.pop("name")
    if arguments is not None:
        function["arguments"] = arguments
    return {**members, "function": function}


STREAMS = {
    "right": [fragment("", index=0, id="a", name="f"), fragment('{"x":', index=0), fragment("1}", index=0),
              fragment('{"y":2}', index=1, id="b", name="g")],
    "from index 1": [fragment("", index=1, id="a", name="f"), fragment('{"x":1}', index=1),
                     fragment('{"y":2}', index=2, id="b", name="g")],
    "no index": [fragment("", id="a", name="f"), fragment('{"x":'), fragment("1}"), fragment('{"y":2}', id="b", name="g")],
    "no id": [fragment('{"x":', index=0, name="f"), fragment("1}", index=0), fragment('{"y":2}', index=1, name="g")],
    "neither": [fragment('{"x":', name="f"), fragment("1}"), fragment('{"y":2}', name="g")],
    "all at index 0": [fragment('{"x":1}', index=0, id="a", name="f"), fragment('{"y":2}', index=0, id="b", name="g")],
    "all at index 0 without ids": [fragment('{"x":1}', index=0, name="f"), fragment('{"y":2}', index=0, name="g")],
    "id and name with each": [fragment('{"x":', index=0, id="a", name="f"), fragment("1}", index=0, id="a", name="f"),
                              fragment('{"y":', index=1, id="b", name="g"), fragment("2}", index=1, id="b", name="g")],
    "name with each, no id": [fragment('{"x":', index=0, name="f"), fragment("1}", index=0, name="f"),
                              fragment('{"y":2}', index=1, name="g")],
    "interleaved": [fragment("", index=0, id="a", name="f"), fragment("", index=1, id="b", name="g"),
                    fragment('{"y":', index=1), fragment('{"x":1}', index=0), fragment("2}", index=1)],
    "a name behind its id": [fragment(index=0, id="a"), fragment('{"x":1}', index=0, name="f"),
                             fragment('{"y":2}', index=1, id="b", name="g")],
    "arguments as an object": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
                               {"index": 1, "id": "b", "function": {"name": "g", "arguments": {"y": 2}}}],
}  # fmt: skip


def join(fragments: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Join as the SDKs do: by index, adding texts up."""
    calls: dict[int, dict[str, str]] = {}
    for one in fragments:
        call = calls.setdefault(one["index"], {"id": "", "name": "", "arguments": ""})
        call["id"] += one.get("id") or ""
        call["name"] += one["function"].get("name") or ""
        call["arguments"] += one["function"].get("arguments") or ""
    assert list(calls) == list(range(len(calls)))
    return list(calls.values())


@pytest.mark.covers("F-8")
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("at_once", [False, True])
def test_calls_are_whole_after_joining_by_index(name: str, at_once: bool) -> None:
    calls = ToolCalls("chatcmpl-77", 0)
    batches = [STREAMS[name]] if at_once else [[one] for one in STREAMS[name]]
    settled = [one for batch in batches for one in calls.settle(batch)[0]]
    joined = join(settled)
    assert [(call["name"], json.loads(call["arguments"])) for call in joined] == [("f", {"x": 1}), ("g", {"y": 2})]
    ids = [call["id"] for call in joined]
    assert all(ids)
    assert len(set(ids)) == 2
    assert ids in (["a", "b"], ["call_77_0_0", "call_77_0_1"])


def test_the_same_tool_twice_in_a_row_is_two_calls() -> None:
    calls = ToolCalls("", 0)
    settled = [calls.settle([fragment('{"x":1}', index=0, name="f")])[0][0] for _ in range(2)]
    assert [one["index"] for one in settled] == [0, 1]
    assert len({one["id"] for one in settled}) == 2


def test_members_nobody_knows_stay() -> None:
    settled, _ = ToolCalls("", 0).settle([fragment("{}", index=3, id="a", name="f", extra=[1])])
    assert settled[0]["extra"] == [1]


@pytest.mark.parametrize("odd", [{}, {"function": None}, {"index": "0", "function": {"name": 5}}, {"id": 7}])
def test_an_odd_fragment_does_no_harm(odd: dict[str, Any]) -> None:
    settled, _ = ToolCalls("", 0).settle([odd])
    assert settled[0]["index"] == 0
