"""`build.py zipapp`: dist/llmgw, one file that CPython 3.11, 3.12 and 3.13 of one architecture run.

The libraries are installed three times, once per interpreter, into folders that are then laid over one another: the
Python files are the same, and compiled ones carry the interpreter in their name. A file that differs all the same
stops the build, since one interpreter would get another's. Two architectures cannot be laid over one another:
compiled files for the stable ABI have the same name on both.
"""

from __future__ import annotations

import fcntl
import filecmp
import fnmatch
import hashlib
import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.failure import Failure
from tools.lock import ARCHITECTURES as ARCHITECTURES
from tools.lock import PYTHONS, pip_interpreter, pip_platforms
from tools.paths import BUILD, REQUIREMENTS, ROOT


def build(python: Path, machine: str, output: str | None) -> Path:
    """Build the file and return where it is. `python` is the environment's interpreter, with pip and shiv.

    Raises Failure when a library has no wheel for one of the targets, or two interpreters' files disagree.
    """
    if machine not in ARCHITECTURES:
        raise Failure(f"no zipapp is made for {machine}: choose --arch {' or '.join(ARCHITECTURES)}")
    own = machine == os.uname().machine
    target = Path(output).resolve() if output else ROOT / "dist" / ("llmgw" if own else f"llmgw-{machine}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with _one_build_at_a_time(machine):
        folder = _site(python, machine)
        packing = subprocess.run(
            [python, "-m", "tools.pack", folder, target, machine], cwd=ROOT, check=False
        )
    if packing.returncode:
        raise Failure("the file could not be packed; what was said is above")
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB for {machine}, sha256 {digest}", flush=True)
    return target


def _site(python: Path, machine: str) -> Path:
    """Lay the libraries of every interpreter and the program itself over one another; return the folder."""
    settings = tomllib.loads((ROOT / "shiv.toml").read_text("utf-8"))
    folder = BUILD / "zipapp" / machine / "site"
    shutil.rmtree(folder, ignore_errors=True)
    for version in PYTHONS:
        _lay_over(_libraries(python, machine, version), folder, settings["leave_out"])
    for source in settings["sources"]:
        _lay_over(ROOT / source, folder, settings["leave_out"], below=Path(source))
    return folder


@contextmanager
def _one_build_at_a_time(machine: str) -> Iterator[None]:
    """Wait for another build in this checkout: both lay their files into the same folder."""
    lock = BUILD / "zipapp" / f"{machine}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _libraries(python: Path, machine: str, version: str) -> Path:
    """Install the locked libraries for one interpreter into a folder of its own, or find them there."""
    lock = REQUIREMENTS / "runtime.lock"
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    folder = BUILD / "zipapp" / machine / version
    stamp = folder.with_suffix(f"{folder.suffix}.lock")
    if folder.exists() and stamp.exists() and stamp.read_text("ascii") == digest:
        return folder
    print(f"Collecting the libraries for CPython {version} on {machine}", flush=True)
    stamp.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    command = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--no-deps",
        "--no-compile",
        "--require-hashes",
        "--only-binary",
        ":all:",
        "--target",
        folder,
        *pip_interpreter(version),
        *pip_platforms(machine),
        "-r",
        lock,
    ]
    if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode:
        raise Failure(
            f"the libraries for CPython {version} on {machine} could not be had; what pip said is above"
        )
    stamp.write_text(digest, "ascii")
    return folder


def _lay_over(source: Path, folder: Path, leave_out: list[str], below: Path = Path()) -> None:
    """Copy a tree over another; a file that is there already must be the same."""
    for path in _files(source):
        name = below / path.relative_to(source)
        if any(fnmatch.fnmatch(str(name), pattern) for pattern in leave_out):
            continue
        copy = folder / name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            # The mode goes into the archive; the builder's umask must not.
            copy.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
        elif copy.suffix == ".py" and not filecmp.cmp(path, copy, shallow=False):
            raise Failure(f"{name} is not the same for every interpreter, so one file cannot serve them all")


def _files(source: Path) -> Iterator[Path]:
    return (path for path in sorted(source.rglob("*")) if path.is_file())
