"""Versions of the cluster settings (C-59): appended, never changed, the newest 500 kept."""

import hashlib
import time

import sqlalchemy as sa
from msgspec import Struct

from llmgw.config.refusal import Refused
from llmgw.store.epoch import notify
from llmgw.store.tables import cluster_settings

KEPT = 500


class SettingsVersion(Struct, frozen=True):
    """One version: YAML text as written, with its comments."""

    version: int
    at: float
    actor: str
    note: str
    document: str
    sha256: str


def version(connection: sa.Connection) -> int:
    """Return the current version, 0 before the first."""
    return connection.execute(sa.select(sa.func.max(cluster_settings.c.version))).scalar() or 0


def current(connection: sa.Connection) -> SettingsVersion | None:
    """Return the highest version, None before the first."""
    query = sa.select(cluster_settings).order_by(cluster_settings.c.version.desc()).limit(1)
    row = connection.execute(query).first()
    return SettingsVersion(*row) if row else None


def append(
    connection: sa.Connection, document: str, actor: str, note: str = "", *, after: int | None = None
) -> SettingsVersion:
    """Add a version. `after` is the version the change was made from: another one since then is Refused(409)."""
    newest = version(connection)
    if after is not None and after != newest:
        raise Refused(
            409, f"the settings are at version {newest}, not {after}; read them again and repeat the change"
        )
    digest = hashlib.sha256(document.encode()).hexdigest()
    row = SettingsVersion(newest + 1, time.time(), actor, note, document, digest)
    connection.execute(
        cluster_settings.insert(), {name: getattr(row, name) for name in row.__struct_fields__}
    )
    connection.execute(cluster_settings.delete().where(cluster_settings.c.version <= row.version - KEPT))
    notify(connection, "settings")
    return row
