"""A file is named by the noun it owns or the act it does; these names say neither (style.md)."""

from __future__ import annotations

from tests.house.tree import name, python_files

EMPTY_WORDS = {"utils", "util", "helpers", "helper", "common", "manager", "handler", "base", "misc"}


def test_no_file_has_a_name_that_says_nothing() -> None:
    nameless = [
        name(path)
        for path in python_files("llmgw", "tools", "tests")
        if EMPTY_WORDS & set(path.stem.removeprefix("test_").split("_"))
    ]
    assert nameless == []
