"""Every source file is proven somewhere: at the mirrored path, or by a test that the table names for it."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.house.proven_elsewhere import PROVEN_BY
from tests.house.tree import ROOT, name, python_files


def test_every_source_file_is_proven_somewhere() -> None:
    unproven = [
        name(path)
        for path in python_files("llmgw")
        if _does_something(path) and not _mirror(path).exists() and name(path) not in PROVEN_BY
    ]
    assert unproven == [], (
        "write tests at the mirrored path, or name the proof in tests/house/proven_elsewhere.py"
    )


def test_every_proof_that_the_table_names_exists() -> None:
    assert [proof for proof in PROVEN_BY.values() if not (ROOT / proof).exists()] == []


def test_the_table_names_only_files_that_need_it() -> None:
    needless = [
        source for source in PROVEN_BY if not (ROOT / source).exists() or _mirror(ROOT / source).exists()
    ]
    assert needless == []


def _mirror(path: Path) -> Path:
    below = path.relative_to(ROOT / "llmgw")
    return ROOT / "tests" / below.parent / f"test_{below.name}"


def _does_something(path: Path) -> bool:
    """Whether a file holds more than a docstring, imports and constants: a class of fields alone is data."""
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_declared_only(node)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    )


def _is_declared_only(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A Protocol's method: a docstring and an ellipsis."""
    return all(
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        for statement in function.body
    )
