"""Shared by end-to-end tests: one engine copy and one tiny model a session, one running `up` a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgw.testing.tiny_gguf import tiny_gguf
from tests.e2e.rig import Up, copy_engine, open_folder


@pytest.fixture(scope="session")
def ground() -> Iterator[Path]:
    """A folder every account may enter, with the engine and the tiny chat model in it."""
    with open_folder() as folder:
        copy_engine(folder)
        (folder / "tiny.gguf").write_bytes(tiny_gguf("chat"))
        yield folder


@pytest.fixture(scope="session")
def engine(ground: Path) -> Path:
    """The packaged llama-server."""
    return ground / "engine" / "llama-server"


@pytest.fixture(scope="session")
def tiny(ground: Path) -> Path:
    """A chat model that always gives the same sentence."""
    return ground / "tiny.gguf"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of one test, below /tmp, that every account may enter."""
    with open_folder() as path:
        yield path


@pytest.fixture(scope="module")
def up(engine: Path, tiny: Path) -> Iterator[Up]:
    """One running `llmgw up` for a whole module."""
    with open_folder() as path:
        running = Up(path / "llmgw", engine, str(tiny)).start()
        try:
            yield running.ready()
        finally:
            running.end()
