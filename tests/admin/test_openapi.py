from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from llmgw.admin.openapi import document
from llmgw.admin.routes import API, PLAIN_ROUTES, ROUTES, Route
from llmgw.wire.admin import GPUView, ModelLine, NodeView, ReplicaView, ShareView, Summary
from tests.admin.admin_server import RunningAdmin

DOCUMENT = document("0.1.0")


def test_every_route_is_in_the_document_and_the_reverse():
    described = {(method, path) for path, item in DOCUMENT["paths"].items() for method in item}
    table = {(route.method.lower(), API + route.path) for route in ROUTES}
    assert described == table | {(route.method.lower(), route.path) for route in PLAIN_ROUTES}


def test_the_document_served_is_the_one_made(admin_shared: RunningAdmin):
    assert admin_shared.ask("GET", API + "/openapi.json").json == json.loads(json.dumps(DOCUMENT))


def test_every_reference_leads_somewhere_and_every_field_has_a_meaning():
    text = json.dumps(DOCUMENT)
    schemas = DOCUMENT["components"]["schemas"]
    for part in text.split('"#/components/schemas/')[1:]:
        assert part.split('"')[0] in schemas
    for name, schema in schemas.items():
        for field, described in schema.get("properties", {}).items():
            assert described.get("description"), (name, field)


@pytest.mark.parametrize("route", [r for r in ROUTES if r.method == "GET"], ids=lambda route: route.operation)
def test_answers_are_as_their_schema_says(admin_shared: RunningAdmin, route: Route):
    path = API + route.path.replace("{id}", "n1").replace("{name}", "chat")
    answer = admin_shared.ask("GET", path)
    if answer.status != 200:
        pytest.skip("has no such id")
    schema = DOCUMENT["paths"][API + route.path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert list(problems(answer.json, schema, "$")) == []


@pytest.mark.parametrize(
    "view",
    [
        Summary(),
        NodeView(id="n", address="a", state="ready"),
        ReplicaView(id="r", model="m", profile="p", engine="e", state="ready"),
        ModelLine(name="m", status="serving", canary=ShareView(share=5), on_demand=True),
        GPUView(node="n", index=0, name="x", gpu_class="c", uuid="u", memory_total_mb=1, temp_c=3.0),
    ],
)
def test_the_smallest_object_has_all_that_is_required(view: msgspec.Struct):
    schema = {"$ref": f"#/components/schemas/{type(view).__name__}"}
    if type(view).__name__ in DOCUMENT["components"]["schemas"]:
        assert list(problems(json.loads(msgspec.json.encode(view)), schema, "$")) == []


KINDS: dict[str, Any] = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict,
}


def problems(value: Any, schema: dict[str, Any], where: str):
    """Yield what is wrong with a value by the part of JSON Schema that the document uses."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "type" in schema and not isinstance(value, KINDS[schema["type"]]):
        yield f"{where} is not {schema['type']}"
        return
    for name in schema.get("required", []):
        if name not in value:
            yield f"{where}.{name} is missing"
    if isinstance(value, dict) and "properties" in schema:
        for name, item in value.items():
            if name not in schema["properties"]:
                yield f"{where}.{name} is not described"
            else:
                yield from problems(item, schema["properties"][name], f"{where}.{name}")
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from problems(item, schema["items"], f"{where}[{number}]")
