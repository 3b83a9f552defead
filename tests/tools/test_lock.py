"""The locks: every line pinned and hashed, everything asked for in them, and the markers that join six answers."""

from __future__ import annotations

import re

import pytest

from tools.lock import TARGETS, Target, _lines_for, _marker, normal_name
from tools.paths import REQUIREMENTS

LOCKS = ("runtime", "dev")


def entries(kind: str) -> list[str]:
    text = (REQUIREMENTS / f"{kind}.lock").read_text("utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def asked_for(kind: str) -> set[str]:
    lines = (REQUIREMENTS / f"{kind}.in").read_text("utf-8").splitlines()
    return {
        normal_name(re.split(r"[=\[;< ]", line)[0]) for line in lines if line and not line.startswith("#")
    }


@pytest.mark.parametrize("kind", LOCKS)
def test_every_line_is_one_version_with_hashes(kind: str) -> None:
    shape = re.compile(r"[\w.-]+==\S+( ; [^#]+?)?(\s+--hash=sha256:[0-9a-f]{64})+")
    assert [entry for entry in entries(kind) if not shape.fullmatch(entry)] == []


@pytest.mark.parametrize("kind", LOCKS)
def test_everything_asked_for_is_locked(kind: str) -> None:
    assert asked_for(kind) - {normal_name(entry.split("==")[0]) for entry in entries(kind)} == set()


def test_nothing_is_locked_twice() -> None:
    names = [entry.split("==")[0] for kind in LOCKS for entry in entries(kind)]
    assert sorted(set(names)) == sorted(names)


def test_a_compiled_library_has_a_wheel_for_each_of_the_six_targets() -> None:
    hashes = {entry.split("==")[0]: entry.count("--hash") for entry in entries("runtime")}
    assert {name: hashes[name] for name in ("httptools", "msgspec", "psycopg-binary")} == {
        "httptools": 6,
        "msgspec": 6,
        "psycopg-binary": 6,
    }


def test_what_all_targets_need_has_no_marker() -> None:
    assert _marker(set(TARGETS)) == ""


def test_what_one_processor_needs_says_so() -> None:
    only = {target for target in TARGETS if target.machine == "x86_64"}
    assert _marker(only) == ' ; platform_machine == "x86_64"'


def test_what_one_interpreter_needs_says_so() -> None:
    only = {target for target in TARGETS if target.python == "3.11"}
    assert _marker(only) == ' ; python_version == "3.11"'


def test_any_other_set_of_targets_is_named_one_by_one() -> None:
    odd = {Target("3.11", "x86_64"), Target("3.13", "aarch64")}
    assert _marker(odd) == (
        ' ; (python_version == "3.11" and platform_machine == "x86_64")'
        ' or (python_version == "3.13" and platform_machine == "aarch64")'
    )


def test_a_line_for_one_processor_is_judged_by_the_target(tmp_path) -> None:
    source = tmp_path / "a.in"
    source.write_text('one==1 ; platform_machine == "x86_64"\ntwo\n', "utf-8")
    assert _lines_for(source, "x86_64").split() == ["one==1", "two"]
    assert _lines_for(source, "aarch64").split() == ["two"]
