"""Where things lie in a checkout."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""

BUILD = ROOT / ".build"
"""Scratch of the task runner; may be deleted at any time."""

VENV = ROOT / ".venv"
"""The environment that `build.py env` makes."""

REQUIREMENTS = ROOT / "requirements"
"""What the project depends on: *.in by hand, *.lock by `build.py lock`."""
