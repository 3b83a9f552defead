"""The one file runs away from the checkout, on every CPython here, and trusts neither the caller's variables nor a
cache that somebody else could have filled."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import llmgw
from tests.house import interpreters
from tests.house.tree import ROOT

PACKED_TOOLS = {"pip", "setuptools", "pytest", "hypothesis", "shiv", "openai", "pyright"}

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="session")
def away(zipapp: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in a folder of its own, with nothing of the checkout beside it."""
    folder = tmp_path_factory.mktemp("away")
    return Path(shutil.copy2(zipapp, folder / "llmgw"))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    folder.chmod(0o755)
    return folder


def call(*command: str | Path, cache: Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run without the checkout, without the environment's variables, and without a network where that can be had."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "SHIV_ROOT": str(cache), **variables}
    return subprocess.run(
        [*without_network(), *map(str, command)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def without_network() -> list[str]:
    apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    tried = shutil.which("unshare") and subprocess.run([*apart, "true"], capture_output=True, check=False)
    return apart if tried and tried.returncode == 0 else []


@pytest.mark.parametrize("version", interpreters.VERSIONS)
def test_it_runs_on_every_interpreter_it_carries(version: str, away: Path, cache: Path) -> None:
    python = interpreters.found().get(version)
    if python is None:
        pytest.skip(f"CPython {version} is not on this machine")
    said = call(python, "-I", away, "--version", cache=cache, cwd=away.parent)
    assert (said.returncode, said.stderr) == (0, "")
    assert llmgw.__version__ in said.stdout


@pytest.mark.parametrize("version", interpreters.VERSIONS)
def test_the_store_and_its_drivers_work_on_every_interpreter(
    version: str, away: Path, cache: Path, tmp_path: Path
) -> None:
    python = interpreters.found().get(version)
    if python is None:
        pytest.skip(f"CPython {version} is not on this machine")
    store = tmp_path / "llmgw.db"
    made = subprocess.run(
        [sys.executable, "-m", "llmgw.testing.bench_gateway", "key", store], cwd=ROOT, check=False
    )
    assert made.returncode == 0
    said = call(
        python,
        "-I",
        away,
        "keys",
        "create",
        "--name",
        "first",
        "--store",
        store,
        "--json",
        cache=cache,
        cwd=away.parent,
    )
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)


def test_the_head_finds_an_interpreter_by_itself(away: Path, cache: Path) -> None:
    said = call(away, "--version", cache=cache, cwd=away.parent)
    assert said.returncode == 0, said.stderr
    assert llmgw.__version__ in said.stdout


def test_without_any_python_it_says_what_to_install(away: Path, cache: Path, tmp_path: Path) -> None:
    said = subprocess.run(
        ["/bin/sh", away, "--version"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 1
    assert "install CPython 3.11, 3.12 or 3.13" in said.stderr


def test_variables_of_the_caller_do_not_choose_what_runs(away: Path, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "intruder.py").write_text("print('intruder')\ndef main(): print('intruder')\n")
    said = call(
        away,
        "--version",
        cache=cache,
        cwd=tmp_path,
        SHIV_MODULE="intruder",
        SHIV_ENTRY_POINT="intruder:main",
        SHIV_INTERPRETER="1",
        SHIV_PREPEND_PYTHONPATH=str(tmp_path),
        PYTHONPATH=str(tmp_path),
    )
    assert said.returncode == 0, said.stderr
    assert "intruder" not in said.stdout
    assert llmgw.__version__ in said.stdout


def test_a_cache_that_others_may_write_is_refused(away: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    said = call(away, "--version", cache=shared, cwd=tmp_path)
    assert said.returncode == 1
    assert str(shared) in said.stderr
    assert "set SHIV_ROOT" in said.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user's")
def test_root_refuses_what_another_user_unpacked(away: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "root" / "llmgw_0123"
    foreign.mkdir(parents=True)
    os.chown(foreign, 65534, 65534)
    said = call(away, "--version", cache=foreign.parent, cwd=tmp_path)
    assert said.returncode == 1
    assert "belongs to user 65534" in said.stderr


def test_the_program_and_its_manual_are_inside_and_the_tools_are_not(zipapp: Path) -> None:
    names = set(zipfile.ZipFile(zipapp).namelist())
    assert "site-packages/llmgw/__main__.py" in names
    assert "site-packages/docs/README.md" in names
    packed = {name.split("/")[1] for name in names if name.startswith("site-packages/")}
    assert packed & PACKED_TOOLS == set()


def test_the_same_content_gives_the_same_bytes(zipapp: Path, tmp_path: Path) -> None:
    """The site folder of the build is packed again, under another umask and in another place."""
    site = ROOT / ".build" / "zipapp" / os.uname().machine / "site"
    again = tmp_path / "llmgw"
    first = subprocess.run(
        [sys.executable, "-m", "tools.pack", site, tmp_path / "first", os.uname().machine],
        cwd=ROOT,
        check=False,
    )
    second = subprocess.run(
        [
            "sh",
            "-c",
            'umask 077; exec "$@"',
            "sh",
            sys.executable,
            "-m",
            "tools.pack",
            site,
            again,
            os.uname().machine,
        ],
        cwd=ROOT,
        check=False,
    )
    assert (first.returncode, second.returncode) == (0, 0)
    assert again.read_bytes() == (tmp_path / "first").read_bytes()
