"""Tests use real things and wait for real conditions: no mocks, no sleeping for a fixed time.

`tests/waiting.py` is the one place that sleeps, between two looks at a condition, with a deadline.
"""

from __future__ import annotations

import ast

from tests.house.tree import imports, name, python_files

WAITING = "tests/waiting.py"
MOCKS = ("unittest.mock", "mock", "pytest_mock", "responses", "respx")


def test_no_test_uses_a_mock() -> None:
    mocked = [
        f"{name(path)}:{line} {module}"
        for path in python_files("tests", "llmgw/testing")
        for line, module in imports(path)
        if any(module == mock or module.startswith(f"{mock}.") for mock in MOCKS)
    ]
    assert mocked == [], "if it needs a mock, the seam is wrong"


def test_no_test_sleeps_for_a_time() -> None:
    sleeping = [
        f"{name(path)}:{node.lineno}"
        for path in python_files("tests")
        if name(path) != WAITING
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "time.sleep"
    ]
    assert sleeping == [], f"wait for a condition with the function of {WAITING}"


def test_every_claimed_row_has_the_shape_of_an_id() -> None:
    import re

    wrong = [
        f"{name(path)}:{node.lineno} {ast.unparse(argument)}"
        for path in python_files("tests")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.covers")
        for argument in node.args
        if not (
            isinstance(argument, ast.Constant) and re.fullmatch(r"[A-Z]{1,2}-\d+[a-z]?", str(argument.value))
        )
    ]
    assert wrong == []
