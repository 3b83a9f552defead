#!/usr/bin/env python3
"""The task runner of the project. It works from an empty clone and needs nothing but Python 3.11, 3.12 or 3.13.

    python3 build.py up        serve a model on this machine
    python3 build.py test      run every check
    python3 build.py --help    the rest

What a command does is in tools/, one file each.
"""

from __future__ import annotations

import sys

if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit(
        "llmgw is built with Python 3.11, 3.12 or 3.13, and this is "
        f"{sys.version_info[0]}.{sys.version_info[1]}: start build.py with one of them, for example "
        "`python3.11 build.py`."
    )

import argparse
import os
import subprocess
from collections.abc import Sequence

from tools import bench, environment, lock, zipapp
from tools.failure import Failure
from tools.open_copy import place_to_test
from tools.paths import ROOT


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status: 0 done, 1 it failed (one sentence says why), 2 the call is wrong."""
    options, rest = _parser().parse_known_args(argv)
    if rest and not options.takes_more:
        _parser().error(
            f"{options.command} takes no argument {rest[0]!r}; see `build.py {options.command} --help`"
        )
    try:
        return options.run(options, rest)
    except Failure as failure:
        print(f"build.py {options.command}: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="build.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run, summary: str, more: str = "") -> argparse.ArgumentParser:
        made = commands.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}. {more}".strip()
        )
        made.set_defaults(run=run, takes_more=bool(more))
        return made

    env = command("env", _env, "make .venv from the locks, or leave it as it is when it matches them")
    env.add_argument("--dev", action="store_true", help="also what building and testing need")
    command(
        "up",
        _up,
        "make the environment and run `llmgw up`",
        "Every other argument goes to `llmgw up`, --help included after `--`: `build.py up -- --help`.",
    )
    command(
        "test",
        _test,
        "make the environment and run every check",
        "Every other argument goes to pytest: `build.py test tests/wire -x`.",
    )
    lint = command("lint", _lint, "check style, arrows between packages, and types")
    lint.add_argument("--fix", action="store_true", help="let ruff mend what it can")
    pack = command("zipapp", _zipapp, "build dist/llmgw: one executable file for CPython 3.11 to 3.13")
    pack.add_argument(
        "--arch",
        choices=zipapp.ARCHITECTURES,
        default=os.uname().machine,
        help="processor it is for (default: this machine's)",
    )
    pack.add_argument(
        "--output",
        default=None,
        metavar="FILE",
        help="where it goes (default: dist/llmgw, or dist/llmgw-ARCH for another architecture)",
    )
    measure = command(
        "bench", _bench, "measure the serving path beside other gateways; print a table of ratios"
    )
    bench.arguments(measure)
    docs = command("docs", _docs, "write the reference pages of docs/reference/ from the code")
    docs.add_argument("--check", action="store_true", help="write nothing; fail when a page is stale")
    locks = command(
        "lock", _lock, "resolve requirements/*.in for every interpreter and architecture into *.lock"
    )
    locks.add_argument(
        "--upgrade", action="store_true", help="take newer versions; without it, those locked are kept"
    )
    return parser


def _env(options: argparse.Namespace, rest: Sequence[str]) -> int:
    environment.ensure(dev=options.dev)
    return 0


def _up(options: argparse.Namespace, rest: Sequence[str]) -> int:
    python = environment.ensure(dev=False)
    rest = rest[1:] if rest[:1] == ["--"] else rest
    os.chdir(ROOT)
    sys.stdout.flush()
    # Replaces this process, so that Ctrl-C and signals reach llmgw itself.
    os.execv(python, [str(python), "-m", "llmgw", "up", *rest])


def _test(options: argparse.Namespace, rest: Sequence[str]) -> int:
    rest = rest[1:] if rest[:1] == ["--"] else rest
    place = place_to_test(ROOT)
    if place != ROOT:
        return subprocess.run([sys.executable, place / "build.py", "test", "--", *rest], cwd=place, check=False).returncode
    python = environment.ensure(dev=True)
    return subprocess.run([python, "-m", "pytest", *rest], cwd=ROOT, check=False).returncode


def _lint(options: argparse.Namespace, rest: Sequence[str]) -> int:
    python = environment.ensure(dev=True)
    tools = python.parent
    runs = (
        [python, "-m", "ruff", "check", *(["--fix"] if options.fix else []), "."],
        [tools / "lint-imports", "--no-logo"],
        [tools / "pyright"],
    )
    return max(subprocess.run(run, cwd=ROOT, check=False).returncode for run in runs)


def _zipapp(options: argparse.Namespace, rest: Sequence[str]) -> int:
    zipapp.build(environment.ensure(dev=True), options.arch, options.output)
    return 0


def _bench(options: argparse.Namespace, rest: Sequence[str]) -> int:
    return bench.run(environment.ensure(dev=True), options)


def _docs(options: argparse.Namespace, rest: Sequence[str]) -> int:
    python = environment.ensure(dev=True)
    check = ["--check"] if options.check else []
    return subprocess.run([python, "-m", "tools.reference", *check], cwd=ROOT, check=False).returncode


def _lock(options: argparse.Namespace, rest: Sequence[str]) -> int:
    lock.resolve(environment.bare(), upgrade=options.upgrade)
    return 0


if __name__ == "__main__":
    sys.exit(main())
