"""As root, the tests run where the engines' account may read."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.failure import Failure
from tools.open_copy import place_to_test

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's engines run as another account")


def tree(folder: Path, mode: int) -> Path:
    folder.mkdir()
    (folder / "build.py").write_text("first")
    (folder / ".venv").mkdir()
    folder.chmod(mode)
    return folder


@pytest.fixture
def open_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@needs_root
def test_a_tree_that_everybody_may_read_is_tested_where_it_is(open_folder: Path) -> None:
    root = tree(open_folder / "open", 0o755)
    assert place_to_test(root) == root


@needs_root
def test_a_closed_tree_is_copied_in_step_and_its_environment_kept(open_folder: Path) -> None:
    root = tree(open_folder / "closed", 0o700)
    copy = place_to_test(root)
    try:
        assert copy != root
        assert (copy / "build.py").read_text() == "first"
        assert not (copy / ".venv").exists()
        (copy / ".venv").mkdir()
        (root / "build.py").write_text("second")
        (root / "new").write_text("")
        (copy / "gone").write_text("")
        assert place_to_test(root) == copy
        assert (copy / "build.py").read_text() == "second"
        assert (copy / "new").exists() and not (copy / "gone").exists()
        assert (copy / ".venv").is_dir()
    finally:
        shutil.rmtree(copy)


@needs_root
def test_a_copy_that_somebody_else_prepared_is_not_used(open_folder: Path) -> None:
    root = tree(open_folder / "closed", 0o700)
    copy = place_to_test(root)
    try:
        os.chown(copy, 65534, 65534)
        with pytest.raises(Failure, match="is not root's own"):
            place_to_test(root)
    finally:
        shutil.rmtree(copy)
