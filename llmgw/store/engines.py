"""The two databases' engines: how connections are made, and what each new one is told."""

import os
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from llmgw.config.refusal import Refused
from llmgw.store.url import sqlite_path

_BUSY_MS = 50
"""SQLite's own wait for a lock. Short: store/loop.py asks again, so that a caller that leaves is not held up."""

_POSTGRES_ARGUMENTS: dict[str, Any] = {
    "connect_timeout": 2,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "tcp_user_timeout": 5000,
    "application_name": "llmgw",
    "options": "-c statement_timeout=5000 -c idle_in_transaction_session_timeout=15000 -c timezone=UTC",
}
"""Seconds and milliseconds as libpq names them. A peer that vanished is noticed within about ten seconds."""


def prepare_file(url: URL) -> None:
    """Make a new SQLite file readable by its owner only, before the driver makes it for everyone. Raises Refused."""
    path = sqlite_path(url)
    if path is None:
        return
    if not path.name or path.is_dir():
        raise Refused(400, f"the store {path or '(empty)'} is a folder; name a file in it, such as llmgw.db")
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except FileNotFoundError:
        raise Refused(
            400, f"the store {path} cannot be made: the folder {path.parent} does not exist"
        ) from None
    except OSError as error:
        raise Refused(400, f"the store {path} cannot be opened: {error.strerror}") from None


def file_identity(url: URL) -> tuple[int, int] | None:
    """Return which file stands at an SQLite store's path, None when there is none."""
    path = sqlite_path(url)
    try:
        found = os.stat(path) if path is not None else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found is not None else None


def import_all() -> None:
    """Import what an SQLite store needs later, for a process that is about to give up the right to read its code."""
    import alembic.runtime.environment
    import alembic.script  # noqa: F401

    create_async_engine("sqlite+aiosqlite://")


def writer(url: URL, pool_size: int) -> AsyncEngine:
    """Return the engine for units that may write."""
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, read_only=False)
    return create_async_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=2,
        pool_pre_ping=True,
        connect_args=_POSTGRES_ARGUMENTS,
    )


def reader(url: URL) -> AsyncEngine:
    """Return the SQLite engine for units that only read: WAL lets them go on beside a writer."""
    return _sqlite(url, read_only=True)


def _sqlite(url: URL, read_only: bool) -> AsyncEngine:
    engine = create_async_engine(url, pool_size=1, max_overflow=0, pool_timeout=2)

    def prepare(driver: Any, _record: Any) -> None:
        driver.isolation_level = None  # transactions are begun in words, by store/loop.py
        cursor = driver.cursor()
        cursor.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
        cursor.execute("PRAGMA foreign_keys=ON")
        if read_only:
            cursor.execute("PRAGMA query_only=ON")
        else:
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()

    event.listen(engine.sync_engine, "connect", prepare)
    return engine


def libpq_address(url: URL) -> str:
    """Return a PostgreSQL address for a connection that listens: no statement timeout, dead peers noticed."""
    arguments = {name: str(value) for name, value in _POSTGRES_ARGUMENTS.items() if name != "options"}
    whole = url.set(drivername="postgresql").update_query_dict(arguments)
    return whole.render_as_string(hide_password=False)
