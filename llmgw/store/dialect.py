"""The few statements the two databases spell alike but SQLAlchemy keeps apart: insert with a conflict clause."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite


def insert(connection: sa.Connection, table: sa.Table) -> Any:
    """Return an INSERT for `table` that has `on_conflict_do_update` and `on_conflict_do_nothing`."""
    return postgresql.insert(table) if is_postgres(connection) else sqlite.insert(table)


def is_postgres(connection: sa.Connection) -> bool:
    """Return whether the connection leads to PostgreSQL."""
    return connection.dialect.name == "postgresql"


def upsert(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> None:
    """Insert a row, or set its other columns where its primary key is there already."""
    keys = [column.name for column in table.primary_key.columns]
    rest = {name: value for name, value in row.items() if name not in keys}
    statement = insert(connection, table).values(row)
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=rest))


def storable(text: str) -> str:
    """Return `text` as both databases take it: PostgreSQL's text holds no NUL, and neither holds a lone surrogate."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
