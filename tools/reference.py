"""`build.py docs`: the reference pages, written from the code so that they cannot say anything else.

    python -m tools.reference [--check]

Settings come from the structs of llmgw.config, whose fields carry their description; commands come from click.
Runs in the environment.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import inspect

from llmgw.config.agent import AgentConfig
from llmgw.config.duration import render_duration
from llmgw.config.model import ModelDefinition
from llmgw.config.server import ServerConfig
from tools.paths import ROOT

REFERENCE = ROOT / "docs" / "reference"

CONFIGURATION = """# Configuration

Every key of `server.yaml`, `agent.yaml` and a model definition. Written by `build.py docs` from the program; a key that
is not listed here is refused, with its path. A duration is written like `30m`, `1h30m` or `200ms`, or as whole seconds.
A key with a dot is one level deeper in the file; `[]` stands for each entry of a list, `NAME` for a name you choose.
"""

COMMANDS = """# Commands

Every command and option, as `--help` prints them. Written by `build.py docs` from the program. Exit status: 0 done,
1 refused or failed (one sentence on standard error says why), 2 the command line is wrong.
"""

FILES: tuple[tuple[str, str, type[msgspec.Struct]], ...] = (
    ("server.yaml", "What one `llmgw server` starts with.", ServerConfig),
    ("agent.yaml", "What one `llmgw agent` starts with.", AgentConfig),
    (
        "A model definition",
        "An entry of `models:` in server.yaml, or the file of `llmgw ctl model add`.",
        ModelDefinition,
    ),
)


def pages() -> dict[Path, str]:
    """Return every page and its text."""
    return {REFERENCE / "configuration.md": _configuration(), REFERENCE / "commands.md": _commands()}


def _configuration() -> str:
    text = CONFIGURATION
    for title, sentence, struct in FILES:
        text += f"\n## {title}\n\n{sentence}\n\n| key | value | default | meaning |\n|---|---|---|---|\n"
        text += "".join(_row(*setting) for setting in _settings(inspect.type_info(struct), ""))
    return text


def _row(key: str, value: str, default: str, meaning: str) -> str:
    return f"| `{key}` | {value} | {default} | {meaning} |\n".replace("|  |", "| |")


def _settings(struct: Any, above: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield key, kind of value, default and description of each field, tables opened up in place."""
    for field in struct.fields:
        kind, description, is_duration = _unwrapped(field.type)
        if not description:
            raise SystemExit(
                f"{struct.cls.__name__}.{field.name} has no description; give it Meta(description=...)"
            )
        key = f"{above}{field.encode_name}"
        inner, suffix = _table_within(kind)
        if inner is None:
            yield key, _value(kind, is_duration), _default(field, is_duration), _cell(description)
        else:
            yield key, _table_value(suffix), "", _cell(description)
            yield from _settings(inner, f"{key}{suffix}.")


def _unwrapped(kind: Any) -> tuple[Any, str, bool]:
    """Return a field's type without its metadata, its description, and whether it is a duration."""
    description, is_duration = "", False
    while isinstance(kind, inspect.Metadata):
        description = description or (kind.extra_json_schema or {}).get("description", "")
        is_duration = is_duration or (kind.extra or {}).get("unit") == "duration"
        kind = kind.type
    return kind, description, is_duration


def _table_within(kind: Any) -> tuple[Any, str]:
    """Return the struct a type holds and what its key is followed by, or None."""
    if isinstance(kind, inspect.StructType):
        return kind, ""
    if isinstance(kind, inspect.UnionType):
        return next(((part, "") for part in kind.types if isinstance(part, inspect.StructType)), (None, ""))
    if isinstance(kind, inspect.ListType | inspect.VarTupleType):
        item, _, _ = _unwrapped(kind.item_type)
        return (item, "[]") if isinstance(item, inspect.StructType) else (None, "")
    if isinstance(kind, inspect.DictType):
        item, _, _ = _unwrapped(kind.value_type)
        return (item, ".NAME") if isinstance(item, inspect.StructType) else (None, "")
    return None, ""


def _table_value(suffix: str) -> str:
    return {"": "table", "[]": "list of tables", ".NAME": "table of tables"}[suffix]


def _value(kind: Any, is_duration: bool) -> str:
    if is_duration:
        return "duration"
    if isinstance(kind, inspect.UnionType):
        kept = [_unwrapped(part) for part in kind.types if not isinstance(part, inspect.NoneType)]
        return " or ".join(dict.fromkeys(_value(part, long) for part, _, long in kept))
    if isinstance(kind, inspect.ListType | inspect.VarTupleType):
        return f"list of {_value(*_unwrapped(kind.item_type)[::2])}"
    names = {
        inspect.BoolType: "true or false",
        inspect.IntType: "integer",
        inspect.FloatType: "number",
        inspect.StrType: "text",
        inspect.DictType: "table",
        inspect.AnyType: "any",
    }
    return names.get(type(kind), type(kind).__name__.removesuffix("Type").lower()) + _bounds(kind)


def _bounds(kind: Any) -> str:
    low, high = getattr(kind, "ge", None), getattr(kind, "le", None)
    if low is not None and high is not None:
        return f", {low} to {high}"
    return f", {low} or more" if low is not None else f", {high} at most" if high is not None else ""


def _default(field: Any, is_duration: bool) -> str:
    if field.required:
        return "required"
    default = field.default
    if default is inspect.NODEFAULT or default is msgspec.NODEFAULT:
        default = field.default_factory()
    if default is None or default == "" or default == [] or default == () or default == {}:
        return ""
    if is_duration:
        return f"`{render_duration(default)}`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _commands() -> str:
    from llmgw.cli.main import cli

    text = COMMANDS
    for path, command in _walk(cli, ["llmgw"]):
        context = click.Context(command, info_name=" ".join(path), terminal_width=100, max_content_width=100)
        text += f"\n## {' '.join(path)}\n\n```\n{command.get_help(context).rstrip()}\n```\n"
    return text


def _walk(command: click.Command, path: list[str]) -> Iterator[tuple[list[str], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path[-1])
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from _walk(below, [*path, name])


def main() -> int:
    """Write the pages, or with --check say which are stale."""
    parser = argparse.ArgumentParser(prog="build.py docs")
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for path, text in pages().items():
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale.append(path.relative_to(ROOT))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    for path in stale:
        print(f"{path} {'is stale: run `python3 build.py docs`' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
