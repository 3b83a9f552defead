"""Where the tests run: here, or as root in a copy that every account may enter.

As root, engines run as an unprivileged account, and the tests start engines out of this tree and its environment. A
clone below root's home or in a private folder cannot be entered by that account, so the tests then run in a copy. The
copy is kept with its environment, and brought in step with the tree at each run.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import subprocess
from pathlib import Path

from tools.failure import Failure

ACCOUNT = "nobody"
_NOT_COPIED = shutil.ignore_patterns(".venv*", "dist", ".build", "bench-results", "__pycache__", ".pytest_cache")


def place_to_test(root: Path) -> Path:
    """Return `root`, or its copy when this is root and `ACCOUNT` may not read the tree. Raises Failure."""
    if os.geteuid() != 0 or _may_read(root):
        return root
    os.umask(0o022)
    digest = hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
    copy = Path("/var/tmp") / f"llmgw-tests-{digest}"
    print(f"engines of the tests run as {ACCOUNT}, which may not enter {root}; the tests run in {copy}", flush=True)
    _bring_in_step(root, copy)
    if not _may_read(copy):
        raise Failure(f"{ACCOUNT} may not read {copy} either; clone into a folder that every account may enter")
    return copy


def _may_read(folder: Path) -> bool:
    account = pwd.getpwnam(ACCOUNT)
    done = subprocess.run(
        ["/usr/bin/test", "-r", folder / "build.py"],
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
        check=False,
    )
    return done.returncode == 0


def _bring_in_step(root: Path, copy: Path) -> None:
    """Replace everything but the environments. A folder that somebody else made is not used."""
    copy.mkdir(mode=0o755, exist_ok=True)
    status = copy.lstat()
    if copy.is_symlink() or status.st_uid != 0:
        raise Failure(f"{copy} is not root's own; remove it")
    copy.chmod(0o755)
    for entry in copy.iterdir():
        if entry.name.startswith(".venv"):
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    shutil.copytree(root, copy, symlinks=True, ignore=_NOT_COPIED, dirs_exist_ok=True)
    copy.chmod(0o755)
    subprocess.run(["chmod", "-R", "go+rX", *(e for e in copy.iterdir() if not e.name.startswith(".venv"))], check=True)
