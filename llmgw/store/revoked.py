"""Certificates that no longer count (X-28)."""

import time

import sqlalchemy as sa
from msgspec import Struct

from llmgw.store.dialect import upsert
from llmgw.store.tables import revoked_certs


class RevokedRow(Struct, frozen=True):
    """One revocation: of a serial, or with `serial` "" of every certificate of `cn` issued before `not_before`."""

    cn: str
    serial: str
    not_before: float | None
    at: float
    by: str
    reason: str


def all(connection: sa.Connection) -> list[RevokedRow]:
    """Return every revocation, by common name and serial."""
    order = (revoked_certs.c.cn, revoked_certs.c.serial)
    return [RevokedRow(*row) for row in connection.execute(sa.select(revoked_certs).order_by(*order))]


def add_name(connection: sa.Connection, cn: str, by: str, reason: str) -> RevokedRow:
    """Revoke a common name for certificates issued before now."""
    now = time.time()
    return _put(connection, RevokedRow(cn, "", now, now, by, reason))


def add_serial(connection: sa.Connection, cn: str, serial: str, by: str, reason: str) -> RevokedRow:
    """Revoke one certificate by its serial number (lower-case hex)."""
    return _put(connection, RevokedRow(cn, serial.lower(), None, time.time(), by, reason))


def _put(connection: sa.Connection, row: RevokedRow) -> RevokedRow:
    upsert(connection, revoked_certs, {name: getattr(row, name) for name in row.__struct_fields__})
    return row
