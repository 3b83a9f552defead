"""How this program starts another role of itself, from a checkout and from the one-file executable alike.

A role is never found through PATH: what runs beside a server is the same file the server is. Inside the zipapp the
interpreter is isolated (`-I`) so that neither the current folder nor PYTHONPATH can put other code in front of ours.
"""

import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path


def own_archive() -> Path | None:
    """Return the zipapp this process was started from, or None in a checkout or an installed package."""
    started = Path(sys.argv[0]) if sys.argv and sys.argv[0] else None
    if started is None or not started.is_file() or not zipfile.is_zipfile(started):
        return None
    return started.resolve()


def own_command(role: str, *arguments: str) -> list[str]:
    """Return the argument vector that starts `llmgw ROLE ARGUMENTS` with this very program."""
    archive = own_archive()
    program = ["-I", str(archive)] if archive else ["-m", "llmgw"]
    return [sys.executable, *program, role, *arguments]


def own_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment for such a child; a checkout's folder is put where `-m` finds it."""
    env = dict(os.environ)
    if own_archive() is None:
        root = str(Path(__file__).resolve().parents[2])
        env["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [env.get("PYTHONPATH")])])
    return env | dict(extra or {})
