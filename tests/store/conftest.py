"""Both databases, for every test that asks for `address`."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.postgres_server import PostgresServer

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store, once per database."""
    if request.param == "sqlite":
        return str(tmp_path / "llmgw.db")
    return request.getfixturevalue("postgres").new_database(f"t{next(_numbers)}")


@pytest.fixture
def sqlite_address(tmp_path: Path) -> str:
    return str(tmp_path / "llmgw.db")


@pytest.fixture
def postgres_address(postgres: PostgresServer) -> str:
    return postgres.new_database(f"t{next(_numbers)}")
