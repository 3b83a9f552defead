"""How this program starts another role of itself, from a checkout and from the one-file executable alike.

A role is never found through PATH: what runs beside a server is the same file the server is. Inside the zipapp the
interpreter is isolated (`-I`), in a checkout it looks in no current folder (`-P`), so that nobody's folder can put
other code in front of ours.

A child that gets this process's environment needs nothing more than `own_environment`. One that gets another, as
engines do, needs `own_variables` in it: without SHIV_ROOT the zipapp would unpack itself once more for its account.
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


def own_command(role: str, *arguments: str, python: str = sys.executable) -> list[str]:
    """Return the argument vector that starts `llmgw ROLE ARGUMENTS` with this very program.

    `python`: another interpreter to run it on, for an account that cannot reach ours.
    """
    archive = own_archive()
    program = ["-I", str(archive)] if archive else ["-P", "-m", "llmgw"]
    return [python, *program, role, *arguments]


def own_variables() -> dict[str, str]:
    """Return what `own_command` needs in its environment: where the program and its libraries lie."""
    if own_archive() is None:
        return {"PYTHONPATH": os.pathsep.join(_package_folders())}
    unpacked = os.environ.get("SHIV_ROOT")
    return {"SHIV_ROOT": unpacked} if unpacked else {}


def own_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment for such a child."""
    return dict(os.environ) | own_variables() | dict(extra or {})


def _package_folders() -> list[str]:
    own = str(Path(__file__).resolve().parents[1])
    return [own, *(folder for folder in sys.path if Path(folder).name == "site-packages" and folder != own)]
