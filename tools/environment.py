"""`build.py env`: a virtual environment that holds exactly what the locks say.

Two sizes share one folder: what llmgw needs to run, and with `dev` also what building and testing need. A stamp with
the digest of the locks, written last, says that the folder is complete; a run that was interrupted leaves none and
the next one goes over it again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.failure import Failure
from tools.paths import BUILD, REQUIREMENTS, ROOT, VENV

PYTHON = VENV / "bin" / "python"
COMMAND = VENV / "bin" / "llmgw"


def ensure(*, dev: bool) -> Path:
    """Bring .venv in step with the locks and return its interpreter. Does nothing when it already is.

    Raises Failure when the machine lacks something, named as the Debian package that brings it.
    """
    with _only_one_at_a_time():
        if not _is_current(dev):
            _make(dev)
        _write_command()
    return PYTHON


def _write_command() -> None:
    """Write `.venv/bin/llmgw`, which runs this tree from any folder: the pages of the manual say `llmgw`."""
    text = f'#!/bin/sh\nPYTHONPATH="{ROOT}${{PYTHONPATH:+:$PYTHONPATH}}" exec "{PYTHON}" -m llmgw "$@"\n'
    if not COMMAND.exists() or COMMAND.read_text(encoding="utf-8") != text:
        COMMAND.write_text(text, encoding="utf-8")
        COMMAND.chmod(0o755)


def bare() -> Path:
    """Return an interpreter that has pip, whatever else it has: what making the locks needs."""
    with _only_one_at_a_time():
        _make_folder()
    return PYTHON


def _make_folder() -> None:
    if _runs_our_version():
        return
    _refuse_without_venv()
    if VENV.exists():
        shutil.rmtree(VENV)
    print(f"Making {VENV.relative_to(ROOT)} with Python {sys.version.split()[0]}", flush=True)
    _run([sys.executable, "-m", "venv", VENV], "the virtual environment could not be made")


def _make(dev: bool) -> None:
    _make_folder()
    locks = _locks(dev)
    print(f"Installing what {' and '.join(str(lock.relative_to(ROOT)) for lock in locks)} list", flush=True)
    _stamp().unlink(missing_ok=True)
    _run(
        [
            PYTHON,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--require-hashes",
            *(part for lock in locks for part in ("-r", lock)),
        ],
        "the locked packages could not be installed; what pip said is above",
    )
    _stamp().write_text("\n".join(_digest(lock) for lock in locks) + "\n", encoding="ascii")


def _locks(dev: bool) -> list[Path]:
    return [REQUIREMENTS / "runtime.lock", *([REQUIREMENTS / "dev.lock"] if dev else [])]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _stamp() -> Path:
    return VENV / "llmgw-locks"


def _is_current(dev: bool) -> bool:
    """A `dev` environment also serves one who asks for less, so the stamp may hold more digests than asked for."""
    if not PYTHON.exists() or not _stamp().exists():
        return False
    return {_digest(lock) for lock in _locks(dev)} <= set(_stamp().read_text(encoding="ascii").split())


def _runs_our_version() -> bool:
    """Whether .venv has an interpreter that starts, of the minor version that runs this."""
    if not PYTHON.exists():
        return False
    asked = subprocess.run(
        [PYTHON, "-c", "import pip, sys; print(*sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.split() == [str(part) for part in sys.version_info[:2]]


def _refuse_without_venv() -> None:
    """Debian keeps `venv` usable only with ensurepip, which is in a package of its own."""
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as error:
        package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
        raise Failure(
            f"this Python has no {error.name}: install the Debian package python3-venv (or {package}), "
            f"for example `apt-get install python3-venv`, and start again"
        ) from None


def need_program(name: str, package: str) -> None:
    """Refuse when a program is not on PATH, naming the Debian package that brings it."""
    if shutil.which(name) is None:
        raise Failure(f"{name} is not on PATH: install the Debian package {package}, and start again")


def _run(command: list[str | Path], sentence: str) -> None:
    if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode:
        raise Failure(sentence)


@contextlib.contextmanager
def _only_one_at_a_time() -> Iterator[None]:
    """Two commands started together must not both write into .venv."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "environment.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
