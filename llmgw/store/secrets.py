"""Secrets of the cluster that must be recoverable, each made once: whoever comes second reads the first one's."""

import secrets as generator
import time

import sqlalchemy as sa

from llmgw.store.dialect import insert
from llmgw.store.tables import secrets

ENGINE = "engine"


def engine_secret(connection: sa.Connection) -> bytes:
    """Return the 32 bytes from which engine keys are derived (P-56), making them at the first call."""
    return made_once(connection, ENGINE, 32)


def made_once(connection: sa.Connection, name: str, size_bytes: int) -> bytes:
    """Return the secret `name`, made of `size_bytes` random bytes if it is not there yet."""
    row = {"name": name, "value": generator.token_bytes(size_bytes), "at": time.time()}
    connection.execute(insert(connection, secrets).values(row).on_conflict_do_nothing())
    return connection.execute(sa.select(secrets.c.value).where(secrets.c.name == name)).scalar_one()
