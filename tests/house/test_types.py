"""pyright's rules of pyproject.toml hold: strict for the rooms that decide and encode, standard for the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT


@pytest.mark.timeout(600)
def test_pyright_has_nothing_to_say() -> None:
    pyright = Path(sys.executable).with_name("pyright")
    checked = subprocess.run([pyright], cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout[-6000:] + checked.stderr[-2000:]
