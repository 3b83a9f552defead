"""Reading a configuration file: YAML to a struct, or one sentence naming the key that is wrong."""

from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_origin

import msgspec

from llmgw.config.agent import AgentConfig
from llmgw.config.duration import parse_duration_s
from llmgw.config.refusal import Refused
from llmgw.config.server import Section, ServerConfig

S = TypeVar("S", bound=Section)
_MAX_FILE_BYTES = 4 * 1024 * 1024


def load_server_config(path: str | Path) -> ServerConfig:
    """Read server.yaml. Raises Refused naming the file and the key."""
    return decode_section(read_yaml(path), ServerConfig, str(path))


def load_agent_config(path: str | Path) -> AgentConfig:
    """Read agent.yaml. Raises Refused naming the file and the key."""
    return decode_section(read_yaml(path), AgentConfig, str(path))


def read_yaml(path: str | Path) -> Any:
    """Return the plain data of a YAML file (an empty file is an empty table). Raises Refused."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        with open(path, "rb") as file:
            raw = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise Refused(400, f"{path} cannot be read: {error.strerror or error}") from None
    if len(raw) > _MAX_FILE_BYTES:
        raise Refused(400, f"{path} is larger than {_MAX_FILE_BYTES} bytes, which no configuration needs")
    try:
        reader: Any = YAML(typ="safe", pure=True)
        return reader.load(raw.decode("utf-8")) or {}
    except UnicodeDecodeError as error:
        raise Refused(400, f"{path} is not UTF-8 at byte {error.start}; save it as UTF-8") from None
    except (YAMLError, ValueError, RecursionError) as error:
        first = " ".join(str(error).split())
        raise Refused(400, f"{path} is not YAML: {first[:300]}") from None


def decode_section(raw: Any, kind: type[S], where: str) -> S:
    """Turn plain data into a struct of `kind`. `where` begins the sentence of a Refused."""
    if not isinstance(raw, dict):
        raise Refused(400, f"{where}: the file must be a table of keys, not {type(raw).__name__}")
    try:
        return msgspec.convert(_with_seconds(raw, kind, ""), kind)
    except Refused as refusal:
        raise Refused(refusal.status, f"{where}: {refusal.sentence}") from None
    except msgspec.ValidationError as error:
        raise Refused(400, f"{where}: {plain_sentence(str(error))}") from None


def plain_sentence(text: str) -> str:
    """Turn msgspec's "... - at `$.router.listen`" into "router.listen: ..."."""
    message, _, path = text.partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    return f"{path}: {message}" if path else message


def _with_seconds(raw: Any, kind: Any, path: str) -> Any:
    """Return a copy of `raw` in which every duration field of `kind` is a number of seconds."""
    if not isinstance(raw, dict) or not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return cast(Any, raw)
    out = dict(cast(dict[str, Any], raw))
    for field in msgspec.structs.fields(kind):
        if field.encode_name not in out:
            continue
        here = f"{path}{field.encode_name}"
        if is_duration(field.type):
            out[field.encode_name] = parse_duration_s(out[field.encode_name], here)
        else:
            out[field.encode_name] = _with_seconds(out[field.encode_name], nested_struct(field.type), here + ".")
    return out


def is_duration(annotation: Any) -> bool:
    """Return whether a field's type is `Seconds`, possibly annotated further."""
    return any(
        isinstance(meta, msgspec.Meta) and (meta.extra or {}).get("unit") == "duration"
        for meta in getattr(annotation, "__metadata__", ())
    )


def nested_struct(annotation: Any) -> Any:
    """Return the struct inside `Annotated[...]` or `X | None`, else None."""
    if hasattr(annotation, "__metadata__"):
        return nested_struct(get_args(annotation)[0])
    if get_origin(annotation) is not None:
        found = [nested_struct(a) for a in get_args(annotation)]
        return next((f for f in found if f is not None), None) if get_origin(annotation) not in (dict, list) else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct) else None
