"""Packages are fetched by the machine's own pip, checked, read as zips, and never installed or run."""

import zipfile
from pathlib import Path

import pytest

from llmgw.config.refusal import Refused
from llmgw.ops.up.packages import Package, fetched_wheels, parse_package, sha256_of, unpack
from tests.ops.up.wheels import make_wheel


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all the packages there are."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


@pytest.mark.covers("E-180")
def test_a_wheel_with_the_pinned_digest_is_fetched_and_its_folder_removed(shelf: Path, tmp_path: Path) -> None:
    wheel = make_wheel(shelf, "engine-a", "1.0", {"bin/run": b"program"})
    said: list[str] = []
    with fetched_wheels([Package("engine-a", "1.0", sha256_of(wheel))], tmp_path, said.append) as (got,):
        assert sha256_of(got) == sha256_of(wheel)
        folder = got.parent
    assert not folder.exists()
    assert said == ["downloading engine-a 1.0 (1 of 1)"]


@pytest.mark.covers("E-180")
def test_without_pip_one_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(Refused, match=r"^/bin/false has no pip to fetch engine-a with; install python3-pip"):
        with fetched_wheels([Package("engine-a", "1.0")], tmp_path, print):
            pass


@pytest.mark.covers("E-180")
def test_another_digest_is_refused_in_one_sentence(shelf: Path, tmp_path: Path) -> None:
    make_wheel(shelf, "engine-a", "1.0", {"bin/run": b"program"})
    with pytest.raises(Refused) as caught, fetched_wheels([Package("engine-a", "1.0", "0" * 64)], tmp_path, print):
        pass
    assert "engine-a 1.0 could not be fetched" in caught.value.sentence
    assert "\n" not in caught.value.sentence


def test_a_package_that_is_not_there_is_named(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="absent 9 could not be fetched"), fetched_wheels([Package("absent", "9")], tmp_path, print):
        pass
    assert not list(tmp_path.glob(".fetch-*"))


@pytest.mark.parametrize(
    "source", ["pypi:", "pypi:a", "pypi:a==", "pypi:==1", "pypi:a>=1", "pypi:../a==1", "pypi:a==1 --index-url=x", "pypi:-e==1"]
)
def test_what_is_not_a_name_and_an_exact_version_is_refused(source: str) -> None:
    with pytest.raises(Refused, match="write pypi:NAME==VERSION"):
        parse_package(source)


def test_unpacking_takes_the_prefix_away_and_keeps_programs_executable(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "engine-a", "1.0", {"bin/run": b"program", "bin/lib.so": b"library"})
    unpack(wheel, "engine_a/", tmp_path / "out")
    assert (tmp_path / "out/bin/run").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "out/bin/lib.so").read_bytes() == b"library"
    assert not (tmp_path / "out/engine_a-1.0.dist-info").exists()


def test_a_member_that_would_leave_the_folder_is_refused(tmp_path: Path) -> None:
    hostile = tmp_path / "hostile.whl"
    with zipfile.ZipFile(hostile, "w") as archive:
        archive.writestr("engine_a/../../escaped", b"x")
    (tmp_path / "in").mkdir()
    with pytest.raises(Refused, match="leaves its folder"):
        unpack(hostile, "engine_a/", tmp_path / "in" / "out")
    assert not (tmp_path / "escaped").exists()
