"""What each new connection is told."""

import anyio
import pytest

from llmgw.ports import StoreUnavailable
from llmgw.store import engines, nodes
from llmgw.store.loop import Store
from llmgw.store.url import store_url


def test_sqlite_is_in_wal_mode_with_foreign_keys_and_readers_cannot_write(sqlite_address: str) -> None:
    def pragmas(connection) -> list:
        names = ("journal_mode", "foreign_keys", "synchronous", "query_only")
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

    async def main() -> None:
        async with Store(sqlite_address) as store:
            assert await store.run(pragmas) == ["wal", 1, 2, 0]
            assert (await store.read(pragmas))[3] == 1
            with pytest.raises(StoreUnavailable):
                await store.read(nodes.remember, "a", "")

    anyio.run(main, backend="trio")


def test_postgresql_bounds_a_statement_to_five_seconds(postgres_address: str) -> None:
    def shown(connection) -> tuple:
        names = ("statement_timeout", "timezone", "application_name")
        return tuple(connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names)

    async def main() -> None:
        async with Store(postgres_address) as store:
            assert await store.run(shown) == ("5s", "UTC", "llmgw")

    anyio.run(main, backend="trio")


def test_a_listening_connection_has_the_password_and_no_statement_timeout() -> None:
    address = engines.libpq_address(store_url("postgres://u:p@db/x?sslmode=require"))
    assert address.startswith("postgresql://u:p@db/x?")
    assert "sslmode=require" in address
    assert "statement_timeout" not in address
