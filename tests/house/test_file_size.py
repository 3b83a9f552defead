"""A file is one idea: 600 lines need a reason in its docstring, 900 are too many (style.md)."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.tree import name, python_files

LONG, TOO_LONG = 600, 900
ANYWHERE = ("llmgw", "tests", "tools", "build.py")


def test_no_file_is_too_long() -> None:
    sizes = {name(path): len(path.read_text("utf-8").splitlines()) for path in python_files(*ANYWHERE)}
    assert {file: size for file, size in sizes.items() if size > TOO_LONG} == {}


def test_a_long_file_says_why_in_its_docstring() -> None:
    unexplained = [name(path) for path in python_files(*ANYWHERE) if _is_long(path) and not _says_why(path)]
    assert unexplained == [], (
        "more than 600 lines, and the docstring has no sentence that begins with `Long because`"
    )


def test_no_function_runs_over_eighty_lines() -> None:
    over = [
        f"{name(path)}:{node.lineno} {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for path in python_files("llmgw", "tools", "build.py")
        if "migrations" not in path.parts  # a migration is a table of data
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= 80
    ]
    assert over == []


def _is_long(path: Path) -> bool:
    return len(path.read_text("utf-8").splitlines()) > LONG


def _says_why(path: Path) -> bool:
    return "Long because" in (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "")
