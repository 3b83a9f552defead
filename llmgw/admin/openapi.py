"""The OpenAPI 3.1 document, made from the route table and the structs (C-77, C-78). Nothing of it is written by hand.

A field is `required` in an answer when it is always written: it has no default, or is `shown`. What a client may leave
out of a body is what has a default.
"""

from collections.abc import Mapping
from typing import Any, cast, get_args, get_origin

import msgspec

from llmgw.admin.bodies import ErrorView, is_duration
from llmgw.admin.routes import API, PLAIN_ROUTES, ROUTES, Query, Route
from llmgw.wire.admin import View

_DURATION = {
    "anyOf": [{"type": "string", "pattern": r"^(\d+(\.\d+)?(ms|s|m|h|d))+$"}, {"type": "integer", "minimum": 0}],
}
_MEANINGS = {
    400: "The request is wrong; the sentence names what.",
    401: "The token is missing or wrong.",
    403: "The Host is a name, or another site's page asks.",
    404: "There is no such thing.",
    409: "It conflicts with what is.",
    413: "The body is larger than 1 MiB.",
    415: "A change without Content-Type: application/json.",
    429: "Ten wrong tokens within a minute from this address.",
    500: "A fault of the server; its id is in the log.",
    501: "What the endpoint depends on is absent here; the sentence names it.",
    503: "Not the leader, or temporarily unable.",
}


def document(release: str) -> dict[str, Any]:
    """Return the document as plain data, in a stable order."""
    kinds = _structs()
    _, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(API + route.path, {})[route.method.lower()] = _operation(route)
    for route in PLAIN_ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _plain(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "llmgw admin API",
            "version": release,
            "description": "What operators and their programs ask of a control plane.",
            "license": {"name": "Proprietary"},
        },
        "servers": [{"url": "http://127.0.0.1:9090"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {name: _completed(schema, _named(kinds, name)) for name, schema in sorted(components.items())},
        },
    }


def _structs() -> list[Any]:
    kinds: list[Any] = [ErrorView]
    for route in (*ROUTES, *PLAIN_ROUTES):
        for kind in (_item(route.answer), route.body):
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in kinds:
                kinds.append(kind)
    return kinds


def _item(answer: Any) -> Any:
    return get_args(answer)[0] if get_origin(answer) is list else answer


def _operation(route: Route) -> dict[str, Any]:
    out: dict[str, Any] = {"operationId": route.operation, "summary": route.summary, "tags": [route.path.split("/")[1]]}
    if route.command:
        out["description"] = f"Used by `llmgw ctl {route.command}`."
    parameters = [
        {"name": name, "in": "path", "required": True, "description": meaning, "schema": {"type": "string"}}
        for name, meaning in route.parameters.items()
    ] + [_query(query) for query in route.query]
    if route.is_change:
        parameters.append(_ACTOR)
    if parameters:
        out["parameters"] = parameters
    if route.body is not None:
        out["requestBody"] = {
            "required": route.body is dict, "content": {"application/json": {"schema": _schema(route.body)}}
        }
    out["responses"] = _responses(route)
    return out


_ACTOR = {
    "name": "X-Llmgw-Actor",
    "in": "header",
    "required": False,
    "description": "Who asks, for the audit log; `unknown` without it.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9._@-]{1,64}$"},
}


def _query(query: Query) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": query.kind}
    if query.choices:
        schema["enum"] = list(query.choices)
    return {"name": query.name, "in": "query", "required": False, "description": query.meaning, "schema": schema}


def _responses(route: Route) -> dict[str, Any]:
    done: dict[str, Any] = {"description": "Done."}
    if route.answer is not None:
        done["content"] = {"application/json": {"schema": _schema(route.answer)}}
    statuses = {400, 401, 403, 429, 500, *route.statuses}
    statuses |= {413, 415, 503} if route.is_change else set()
    statuses |= {503} if route.needs_store else set()
    refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorView"}}}
    answers = {str(route.status): done}
    return answers | {str(s): {"description": _MEANINGS[s], "content": refusal} for s in sorted(statuses)}


def _plain(route: Route) -> dict[str, Any]:
    kind = "application/json" if route.answer is not str else "text/plain"
    schema = _schema(route.answer) if route.answer is not str else {"type": "string"}
    done = {"description": "Done.", "content": {kind: {"schema": schema}}}
    return {"operationId": route.operation, "summary": route.summary, "security": [], "responses": {"200": done}}


def _schema(kind: Any) -> dict[str, Any]:
    if get_origin(kind) is list:
        return {"type": "array", "items": _schema(get_args(kind)[0])}
    if kind is dict:
        return {"type": "object", "additionalProperties": True}
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


def _named(kinds: list[Any], name: str) -> type[msgspec.Struct] | None:
    """Find a struct by name among `kinds` and what their fields hold."""
    seen: set[Any] = set()
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        if kind in seen:
            continue
        seen.add(kind)
        if kind.__name__ == name:
            return kind
        waiting.extend(_inside([field.type for field in msgspec.structs.fields(kind)]))
    return None


def _inside(annotations: list[Any]) -> list[type[msgspec.Struct]]:
    found: list[type[msgspec.Struct]] = []
    for annotation in annotations:
        if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
            found.append(annotation)
        else:
            found.extend(_inside(list(get_args(annotation))))
    return found


def _completed(schema: dict[str, Any], kind: type[msgspec.Struct] | None) -> dict[str, Any]:
    """Mark what is always written, spell durations, and leave out null and defaults, which are never sent."""
    if kind is None:
        return schema
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in msgspec.structs.fields(kind):
        given = dict(cast(Mapping[str, Any], schema["properties"][field.encode_name]))
        given.pop("default", None)
        given = _without_null(given)
        if is_duration(field.type):
            given = {"description": given.get("description", ""), **_DURATION}
        properties[field.encode_name] = given
        always = field.required or (issubclass(kind, View) and field.default_factory is not msgspec.NODEFAULT)
        if always:
            required.append(field.encode_name)
    out = {**schema, "properties": properties}
    out.pop("required", None)
    return {**out, "required": required} if required else out


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    choices = [choice for choice in schema.get("anyOf", []) if choice != {"type": "null"}]
    if len(choices) != 1:
        return schema
    return {**{key: value for key, value in schema.items() if key != "anyOf"}, **choices[0]}
