"""The manual says what the program does: reference pages are not stale, links lead somewhere, commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import ROOT, name, tracked_files

LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
BUILD_COMMAND = re.compile(r"python3 build\.py ([a-z]+)")
KINDS_OF_CHANGE = ("setting", "ctl-command", "agent-message", "engine", "migration", "metric")


def pages() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".md"]


def test_the_reference_pages_are_not_stale() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "tools.reference", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_link_of_the_manual_leads_to_a_file() -> None:
    dead = [
        f"{name(page)}: {target}"
        for page in pages()
        for target in LINK.findall(page.read_text("utf-8"))
        if not (page.parent / target).exists()
    ]
    assert dead == []


def test_the_readme_begins_with_its_two_commands() -> None:
    code = [
        line.strip()
        for line in (ROOT / "README.md").read_text("utf-8").splitlines()
        if line.startswith("    ")
    ]
    assert code[:2] == ["python3 build.py up", "python3 build.py test"]


@pytest.mark.parametrize(
    "command",
    sorted({command for page in pages() for command in BUILD_COMMAND.findall(page.read_text("utf-8"))}),
)
def test_every_build_command_in_the_manual_explains_itself(command: str) -> None:
    helped = subprocess.run(
        [sys.executable, "build.py", command, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert helped.returncode == 0, helped.stderr
    assert "usage:" in helped.stdout


def test_every_file_that_a_checklist_names_exists() -> None:
    gone = [
        f"{name(page)}: {target}"
        for page in pages()
        if "checklists" in page.parts
        for target in paths_named(page)
        if not (ROOT / target).exists()
    ]
    assert gone == []


def paths_named(page: Path) -> Iterator[str]:
    for quoted in re.findall(r"`([^`\s]+)`", page.read_text("utf-8")):
        if quoted.startswith(("llmgw/", "tests/", "tools/", "requirements/")) and "*" not in quoted:
            yield quoted


def test_each_kind_of_change_has_its_checklist() -> None:
    assert [kind for kind in KINDS_OF_CHANGE if not (ROOT / f"docs/checklists/{kind}.md").exists()] == []


def test_the_manual_lists_every_page_of_its_own() -> None:
    index = (ROOT / "docs/README.md").read_text("utf-8")
    unlisted = [
        name(page)
        for page in pages()
        if name(page).startswith("docs/")
        and name(page) != "docs/README.md"
        and f"({page.relative_to(ROOT / 'docs').as_posix()})" not in index
    ]
    assert unlisted == []
