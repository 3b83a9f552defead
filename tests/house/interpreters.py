"""The CPythons of 3.11, 3.12 and 3.13 that this machine has, for what has to run on each.

Looked for on PATH, in LLMGW_TEST_PYTHONS (paths separated by `:`) and in a version manager's folder. One that is not
found is not run, and the run says so: nothing is proven about it here.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13")


@functools.cache
def found() -> dict[str, str]:
    """Map each version that is here to one interpreter of it."""
    here: dict[str, str] = {}
    for path in _candidates():
        version = _version(path)
        if version in VERSIONS:
            here.setdefault(version, path)
    return here


def missing() -> list[str]:
    """The versions that are not here."""
    return [version for version in VERSIONS if version not in found()]


def _candidates() -> Iterator[str]:
    yield from filter(None, os.environ.get("LLMGW_TEST_PYTHONS", "").split(":"))
    managers = (
        Path.home() / ".pyenv/versions",
        Path.home() / ".local/share/uv/python",
        Path.home() / ".asdf/installs/python",
    )
    for manager in managers:
        yield from (str(path) for path in sorted(manager.glob("*/bin/python3"), reverse=True))
    for name in ("python3.11", "python3.12", "python3.13", "python3"):
        on_path = shutil.which(name)
        if on_path:
            yield on_path
    yield getattr(sys, "_base_executable", sys.executable)


def _version(path: str) -> str:
    """Ask an interpreter; a version manager's stand-in that has nothing behind it answers nothing."""
    try:
        asked = subprocess.run(
            [path, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    except OSError:
        return ""
    return asked.stdout.strip()
