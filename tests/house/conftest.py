"""What only the checks of the house share: the zipapp under test."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.interpreters import missing
from tests.house.tree import ROOT, python_files, tracked_files


@pytest.fixture(scope="session")
def zipapp() -> Path:
    """The zipapp of the tree as it is, built once and kept until something that goes into it changes."""
    target = ROOT / ".build" / "zipapp-under-test"
    stamp = target.with_name(target.name + ".sources")
    digest = _digest_of_what_goes_in()
    if not target.exists() or not stamp.exists() or stamp.read_text("ascii") != digest:
        built = subprocess.run(
            [sys.executable, "build.py", "zipapp", "--output", str(target)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert built.returncode == 0, built.stdout + built.stderr
        stamp.write_text(digest, "ascii")
    return target


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which interpreters nothing was run on."""
    if missing():
        terminalreporter.write_line(f"not run, because not on this machine: CPython {', '.join(missing())}")


def _digest_of_what_goes_in() -> str:
    digest = hashlib.sha256(os.uname().machine.encode())
    docs = [path for path in tracked_files() if (ROOT / "docs") in path.parents]
    for path in [
        ROOT / "shiv.toml",
        ROOT / "requirements/runtime.lock",
        *docs,
        *python_files("llmgw", "tools"),
    ]:
        digest.update(str(path).encode() + path.read_bytes())
    digest.update((ROOT / "tools/zipapp_head.sh").read_bytes())
    return digest.hexdigest()
