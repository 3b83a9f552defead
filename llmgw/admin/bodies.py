"""What changes are sent as and what the smaller endpoints answer, beside the objects of `wire.admin`."""

from collections.abc import Mapping
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from llmgw.config.duration import parse_duration_s
from llmgw.config.refusal import Refused
from llmgw.wire.admin import View, shown


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A change as sent. Every field is optional unless it has no default."""


class NoBody(Body, frozen=True, kw_only=True):
    """A change that takes no fields: an empty body or `{}`."""


class ScaleBody(Body, frozen=True, kw_only=True):
    """New scaling of a model; what is absent stays."""

    min: Annotated[int, Meta(ge=0, description="Replicas kept running; 0 loads on demand.")] | None = None
    max: Annotated[int, Meta(ge=0, description="Most replicas; 0 stops the model.")] | None = None
    idle_timeout: (
        Annotated[
            float,
            Meta(
                description="Unused time after which a model with min 0 unloads.", extra={"unit": "duration"}
            ),
        ]
        | None
    ) = None


class LogsView(View, frozen=True, kw_only=True):
    """The end of a log."""

    node: Annotated[str, Meta(description="The node it is of.")]
    shard: Annotated[str, Meta(description="The shard it is of; absent for the agent's own.")] = ""
    lines: Annotated[tuple[str, ...], Meta(description="Its last lines, oldest first.")] = shown(())
    cut: Annotated[bool, Meta(description="Whether there were more.")] = shown(False)


class VersionView(View, frozen=True, kw_only=True):
    """The process that answers."""

    release: Annotated[str, Meta(description="Its release.")]
    commit: Annotated[str, Meta(description="The commit it was built from; absent when not known.")] = ""
    name: Annotated[str, Meta(description="The control plane's name.")]
    leader: Annotated[bool, Meta(description="Whether it leads.")] = shown(False)


class WhoamiView(View, frozen=True, kw_only=True):
    """Who the caller says it is."""

    actor: Annotated[str, Meta(description="The actor as read from X-Llmgw-Actor.")]


class ErrorView(View, frozen=True, kw_only=True):
    """Every refusal."""

    error: Annotated[str, Meta(description="Why, as one sentence.")]


class HealthView(View, frozen=True, kw_only=True):
    """That the process answers."""

    status: Annotated[str, Meta(description="`ok`.")] = shown("ok")


def read_json(raw: bytes) -> dict[str, Any]:
    """Return a body's fields; an empty body has none. Raises Refused(400)."""
    if not raw.strip():
        return {}
    try:
        fields = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise Refused(400, "the body must be a JSON object")
    return fields


def read_body(fields: Mapping[str, Any], kind: type[Body]) -> Body:
    """Turn fields into `kind`. Raises Refused(400) naming every unknown field, or the one that is wrong (C-07)."""
    known = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    unknown = sorted(set(fields) - set(known))
    if unknown:
        takes = ", ".join(known) if known else "none"
        raise Refused(400, f"unknown field {', '.join(unknown)}; this takes {takes}")
    given = {name: _in_seconds(value, name, known[name].type) for name, value in fields.items()}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        raise Refused(400, f"{path.rstrip('`')}: {message}" if path else message) from None


def _in_seconds(value: Any, name: str, annotation: Any) -> Any:
    return parse_duration_s(value, name) if is_duration(annotation) and value is not None else value


def is_duration(annotation: Any) -> bool:
    """Return whether a field holds a duration (C-10), perhaps among other things."""
    if any((meta.extra or {}).get("unit") == "duration" for meta in getattr(annotation, "__metadata__", ())):
        return True
    return any(is_duration(inner) for inner in get_args(annotation))
