"""The tenancy epoch: one counter that moves in the transaction of any change to keys or their owners (T-18)."""

import sqlalchemy as sa

from llmgw.store.dialect import is_postgres
from llmgw.store.tables import tenancy_epoch

CHANNEL = "llmgw_changes"
"""PostgreSQL's NOTIFY channel; the payload is a word that says what changed."""


def read(connection: sa.Connection) -> int:
    """Return the epoch; it only grows."""
    return connection.execute(sa.select(tenancy_epoch.c.epoch)).scalar_one()


def bump(connection: sa.Connection) -> None:
    """Move the epoch in the caller's transaction, and wake listeners when that commits."""
    connection.execute(tenancy_epoch.update().values(epoch=tenancy_epoch.c.epoch + 1))
    notify(connection, "tenancy")


def notify(connection: sa.Connection, word: str) -> None:
    """Tell listeners on PostgreSQL that `word` changed, at commit. On SQLite they poll."""
    if is_postgres(connection):
        connection.execute(sa.select(sa.func.pg_notify(CHANNEL, word)))
