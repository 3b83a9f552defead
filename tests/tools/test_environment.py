"""`build.py env` and the command line of build.py: what it says when something is missing or wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house.tree import ROOT
from tools import environment
from tools.failure import Failure

COMMANDS = ("env", "up", "test", "lint", "zipapp", "bench", "docs", "lock")


def build(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "build.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str) -> None:
    helped = build(command, "--help")
    assert helped.returncode == 0
    assert f"build.py {command}" in helped.stdout


def test_an_argument_nobody_knows_is_refused_with_2() -> None:
    refused = build("env", "--devv")
    assert refused.returncode == 2
    assert "--devv" in refused.stderr


def test_build_py_imports_nothing_beyond_the_standard_library() -> None:
    """Run without site-packages at all: an empty clone has nothing else."""
    ran = subprocess.run(
        [sys.executable, "-S", "build.py", "--help"], cwd=ROOT, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def test_a_python_without_venv_is_told_which_debian_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(Failure, match="python3-venv"):
        environment._refuse_without_venv()


def test_a_missing_program_is_named_with_its_debian_package() -> None:
    with pytest.raises(Failure, match="install the Debian package gcc"):
        environment.need_program("no-such-program", "gcc")


def test_an_environment_for_development_also_serves_who_asks_for_less() -> None:
    environment.ensure(dev=True)
    assert environment._is_current(dev=False)


def test_measuring_without_the_tools_says_where_they_are_looked_for(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLMGW_BENCH", str(tmp_path))
    refused = build("bench")
    assert refused.returncode == 1
    assert str(tmp_path) in refused.stderr
    assert "LLMGW_BENCH" in refused.stderr
