"""`build.py lock`: one lock with hashes that serves six targets, from pip's own dry-run reports.

pip resolves for one interpreter at a time. So it is asked six times (CPython 3.11, 3.12, 3.13 on x86-64 and aarch64)
what it would install, and the answers are joined: a distribution on which all agree is one line with the hashes of
every wheel; one that only some need, or need in another version, gets a line per version with the marker that says
where. Every platform tag is listed, because pip given only the newest finds no wheel of a library built for an older.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from tools.failure import Failure
from tools.paths import BUILD, REQUIREMENTS

PYTHONS = ("3.11", "3.12", "3.13")
ARCHITECTURES = ("x86_64", "aarch64")
GLIBCS = {
    "runtime": ("2_28", "2_27", "2_26", "2_24", "2_17", "2_12"),
    "dev": ("2_35", "2_34", "2_31", "2_28", "2_27", "2_26", "2_24", "2_17", "2_12"),
}
UNLOCKED = {"pip", "setuptools"}
"""The environment brings its own pip, and nothing we import needs setuptools."""

HEAD = "# Made by `build.py lock` from {sources}; do not edit. Serves CPython {pythons} on {architectures}.\n"
ONLY_ON = re.compile(r"^(?P<requirement>[^#;]+);\s*platform_machine\s*==\s*\"(?P<machine>\w+)\"\s*$")


class Target(NamedTuple):
    """One interpreter on one processor."""

    python: str
    machine: str


TARGETS = tuple(Target(python, machine) for python in PYTHONS for machine in ARCHITECTURES)


class Pin(NamedTuple):
    """One version of one distribution, as a lock line holds it."""

    name: str
    version: str


Resolved = dict[Pin, dict[Target, set[str]]]
"""For each pin, the targets that need it and the SHA-256 digests of the files that serve them."""


def resolve(python: Path, *, upgrade: bool) -> None:
    """Write runtime.lock and dev.lock. Without `upgrade`, what is locked already keeps its version."""
    BUILD.mkdir(exist_ok=True)
    known = {} if upgrade else _locked("runtime") | _locked("dev")
    runtime = _resolve_for_all(python, "runtime", ["runtime.in"], known)
    dev = _resolve_for_all(
        python, "dev", ["runtime.in", "dev.in"], known | {pin.name: pin.version for pin in runtime}
    )
    _write("runtime", "runtime.in", runtime)
    _write(
        "dev",
        "runtime.in and dev.in, without what runtime.lock has",
        {pin: where for pin, where in dev.items() if pin not in runtime},
    )


def pip_platforms(machine: str, kind: str = "runtime") -> list[str]:
    """Return pip's `--platform` arguments for a processor: every manylinux tag that its wheels may carry."""
    tags = [f"manylinux_{glibc}_{machine}" for glibc in GLIBCS[kind]]
    tags += [f"manylinux2014_{machine}", f"manylinux2010_{machine}", f"manylinux1_{machine}"]
    return [part for tag in tags for part in ("--platform", tag)]


def pip_interpreter(python: str) -> list[str]:
    """Return pip's arguments that stand for a CPython minor version."""
    return [
        "--python-version",
        python,
        "--implementation",
        "cp",
        "--abi",
        f"cp{python.replace('.', '')}",
        "--abi",
        "abi3",
        "--abi",
        "none",
    ]


def _resolve_for_all(python: Path, kind: str, sources: list[str], known: dict[str, str]) -> Resolved:
    found: Resolved = defaultdict(dict)
    for target in TARGETS:
        print(f"Resolving {kind} for CPython {target.python} on {target.machine}", flush=True)
        for entry in _ask_pip(python, kind, sources, target, known):
            name = normal_name(entry["metadata"]["name"])
            if name not in UNLOCKED:
                digest = entry["download_info"]["archive_info"]["hashes"]["sha256"]
                found[Pin(name, entry["metadata"]["version"])].setdefault(target, set()).add(digest)
    return found


def _ask_pip(
    python: Path, kind: str, sources: list[str], target: Target, known: dict[str, str]
) -> list[dict]:
    wanted, kept, report = (BUILD / f"{kind}.{end}" for end in ("in", "keep", "json"))
    wanted.write_text(
        "".join(_lines_for(REQUIREMENTS / source, target.machine) for source in sources), "utf-8"
    )
    kept.write_text("".join(f"{name}=={version}\n" for name, version in known.items()), "utf-8")
    asked = subprocess.run(
        [
            python,
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--ignore-installed",
            "--quiet",
            "--report",
            report,
            "--target",
            BUILD / "none",
            *pip_interpreter(target.python),
            *pip_platforms(target.machine, kind),
            "--only-binary",
            ":all:",
            "-r",
            wanted,
            "-c",
            kept,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode:
        raise Failure(
            f"pip cannot resolve {kind} for CPython {target.python} on {target.machine}:\n{asked.stderr}"
        )
    return json.loads(report.read_text("utf-8"))["install"]


def _lines_for(source: Path, machine: str) -> str:
    """pip judges markers by the machine it runs on, not by the target, so the one marker used here is judged first."""
    lines = []
    for line in source.read_text("utf-8").splitlines():
        only = ONLY_ON.match(line)
        if only is None:
            lines.append(line)
        elif only["machine"] == machine:
            lines.append(only["requirement"].strip())
    return "\n".join(lines) + "\n"


def _locked(kind: str) -> dict[str, str]:
    path = REQUIREMENTS / f"{kind}.lock"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    pins = (re.match(r"([\w.-]+)==([^ ;\\]+)", line) for line in lines)
    return {pin[1]: pin[2] for pin in pins if pin}


def _write(kind: str, sources: str, resolved: Resolved) -> None:
    text = HEAD.format(sources=sources, pythons=", ".join(PYTHONS), architectures=" and ".join(ARCHITECTURES))
    for pin, where in sorted(resolved.items()):
        hashes = sorted(set().union(*where.values()))
        marker = _marker(set(where))
        text += (
            f"{pin.name}=={pin.version}{marker}"
            + "".join(f" \\\n    --hash=sha256:{one}" for one in hashes)
            + "\n"
        )
    (REQUIREMENTS / f"{kind}.lock").write_text(text, "utf-8")
    print(f"{kind}.lock: {len(resolved)} distributions", flush=True)


def _marker(targets: set[Target]) -> str:
    if targets == set(TARGETS):
        return ""
    for machine in ARCHITECTURES:
        if targets == {target for target in TARGETS if target.machine == machine}:
            return f' ; platform_machine == "{machine}"'
    for python in PYTHONS:
        if targets == {target for target in TARGETS if target.python == python}:
            return f' ; python_version == "{python}"'
    either = (
        f'(python_version == "{target.python}" and platform_machine == "{target.machine}")'
        for target in sorted(targets)
    )
    return " ; " + " or ".join(either)


def normal_name(name: str) -> str:
    """Return a distribution's name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()
