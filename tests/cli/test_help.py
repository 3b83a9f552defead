"""Golden help: what every command prints for `--help` is kept in golden/, so that a change of words is seen."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from llmgw import __version__
from llmgw.cli.lazy import SETTINGS, LazyGroup
from llmgw.cli.main import cli, main
from tests.cli.ctl_program import llmgw

GOLDEN = Path(__file__).parent / "golden"

def walk(command: click.Command, path: list[str]) -> Iterator[tuple[list[str], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=path[-1])
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from walk(below, [*path, name])


COMMANDS = [(path, command) for path, command in walk(cli, ["llmgw"]) if not {"keys", "cert", "sim-engine"} & set(path)]


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_help_is_what_the_golden_file_says(path: list[str], command: click.Command):
    context = click.Context(command, info_name=" ".join(path), terminal_width=100, **SETTINGS)
    text = command.get_help(context).rstrip() + "\n"
    file = GOLDEN / ("_".join(path) + ".txt")
    if os.environ.get("LLMGW_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert file.exists(), "run the test once with LLMGW_WRITE_GOLDEN=1 and read what it wrote"
    assert text == file.read_text()


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_the_line_a_group_shows_is_the_commands_own(path: list[str], command: click.Command):
    if isinstance(command, LazyGroup):
        for name, (_, _, line) in command.lazy.items():
            below = command.get_command(click.Context(command), name)
            assert below is not None
            assert below.get_short_help_str(200).rstrip(".") == line.rstrip("."), (path, name)


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_every_command_answers_h(path: list[str], command: click.Command, capsys: pytest.CaptureFixture[str]):
    assert main([*path[1:], "-h"]) == 0
    assert capsys.readouterr().out.startswith("Usage:")


def test_bare_llmgw_prints_help_and_says_the_console_comes_later():
    done = llmgw()
    assert (done.returncode, "console" in done.stdout, "Commands:" in done.stdout) == (0, True, True)


def test_the_version_is_printed():
    assert llmgw("--version").stdout == f"llmgw {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        ("--version", "trio anyio sqlalchemy starlette hypercorn msgspec rich httpx cryptography"),
        ("ctl --server 127.0.0.1:1 status", "trio anyio sqlalchemy starlette hypercorn rich httpx cryptography structlog"),
    ],
)
def test_a_quick_command_imports_little(arguments: str, absent: str):
    import subprocess

    program = (
        f"import sys; from llmgw.cli.main import main; main({arguments.split()!r}); "
        f"print(sorted(set({absent.split()!r}) & set(sys.modules)))"
    )
    env = {**os.environ, "LLMGW_ADMIN_TOKEN": "x" * 64}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr
