"""ruff's rules of pyproject.toml hold. They are quick, so every test run applies them."""

from __future__ import annotations

import subprocess
import sys

from tests.house.tree import ROOT


def test_ruff_has_nothing_to_say() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout[-6000:] + checked.stderr[-2000:]
