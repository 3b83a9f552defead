"""The zipapp of the tree as it is, which the checks of the file and the end-to-end tests start."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.house.tree import ROOT, python_files, tracked_files


def zipapp_under_test() -> Path:
    """Build it with build.py, or return the one of an earlier run while nothing that goes into it has changed."""
    target = ROOT / ".build" / "zipapp-under-test"
    stamp = target.with_name(target.name + ".sources")
    with open(target.with_name(target.name + ".lock"), "w") as held:
        # Two runs in one checkout would each take the other's half-told stamp for its own.
        fcntl.flock(held, fcntl.LOCK_EX)
        digest = _digest_of_what_goes_in()
        if not target.exists() or not stamp.exists() or stamp.read_text("ascii") != digest:
            command = [sys.executable, "build.py", "zipapp", "--output", str(target)]
            built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            assert built.returncode == 0, built.stdout + built.stderr
            stamp.write_text(digest, "ascii")
    return target


def _digest_of_what_goes_in() -> str:
    digest = hashlib.sha256(os.uname().machine.encode())
    docs = [path for path in tracked_files() if (ROOT / "docs") in path.parents]
    named = [ROOT / "shiv.toml", ROOT / "requirements/runtime.lock", ROOT / "tools/zipapp_head.sh"]
    for path in [*named, *docs, *python_files("llmgw", "tools")]:
        digest.update(str(path).encode() + path.read_bytes())
    return digest.hexdigest()
