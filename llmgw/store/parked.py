"""Models that failed too often and are parked: kept, so that a new leader does not start the same failures over."""

import time

import sqlalchemy as sa
from msgspec import Struct

from llmgw.store.dialect import upsert
from llmgw.store.tables import parked


class ParkedRow(Struct, frozen=True):
    """A parked model: how often it failed in a row, the last reason, and since when (Unix seconds)."""

    model: str
    failures: int
    reason: str
    at: float


def all(connection: sa.Connection) -> dict[str, ParkedRow]:
    """Return the parked models, by name."""
    rows = connection.execute(sa.select(parked).order_by(parked.c.model))
    return {row.model: ParkedRow(*row) for row in rows}


def put(connection: sa.Connection, model: str, failures: int, reason: str) -> None:
    """Park a model."""
    upsert(connection, parked, {"model": model, "failures": failures, "reason": reason, "at": time.time()})


def clear(connection: sa.Connection, model: str) -> bool:
    """Let a model be tried again; return whether it was parked."""
    return connection.execute(parked.delete().where(parked.c.model == model)).rowcount > 0
