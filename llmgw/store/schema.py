"""Bringing a store to this release's schema, and refusing one that a newer release made.

Opening is the common case and reads one row: alembic is imported only when there is something to do. Migrations are
files of this package; from a zip that was not unpacked they are copied to a temporary folder, because alembic loads
revisions by path.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import sqlalchemy as sa

import llmgw
from llmgw.config.refusal import Refused
from llmgw.store.tables import schema_releases

REVISIONS = ("0001",)
"""Every revision this release knows, oldest first. A test compares it with the migrations that are there."""

_UPGRADE_LOCK = 0x6C6C6D67
"""PostgreSQL advisory lock that one upgrading process holds."""


class StoreTooNew(Refused):
    """A newer release brought the store to a schema this one does not know."""


def is_current(connection: sa.Connection) -> bool:
    """Return whether there is nothing to do. Takes no lock."""
    return _revision(connection) == REVISIONS[-1]


def make_current(connection: sa.Connection, shown: str) -> None:
    """Create or upgrade the schema inside the caller's transaction. Raises StoreTooNew, Refused."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SET LOCAL statement_timeout = 0"))
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_UPGRADE_LOCK})"))
    found = _revision(connection)
    if found == REVISIONS[-1]:
        return
    if found is not None and found not in REVISIONS:
        raise StoreTooNew(409, _too_new(connection, shown, found))
    if found is None and sa.inspect(connection).get_table_names():
        raise Refused(
            409, f"the store {shown} holds tables that are not llmgw's; give llmgw a database of its own"
        )
    _upgrade(connection)
    release = {"revision": REVISIONS[-1], "release": llmgw.__version__, "at": time.time()}
    connection.execute(schema_releases.insert(), release)


def not_a_store(shown: str, reason: str) -> Refused:
    """Return the refusal of a file that cannot be opened as a store."""
    return Refused(
        409, f"{reason}; nothing was changed" if shown in reason else f"the store {shown}: {reason}"
    )


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def _too_new(connection: sa.Connection, shown: str, found: str) -> str:
    release = None
    if sa.inspect(connection).has_table("schema_releases"):
        release = connection.execute(
            sa.select(schema_releases.c.release).where(schema_releases.c.revision == found)
        ).scalar()
    return (
        f"the store {shown} was made by a newer release: its schema is {found} (llmgw {release or 'unknown'}), and "
        f"this is llmgw {llmgw.__version__}, which knows up to {REVISIONS[-1]}; run the newer release, or restore a "
        "backup that this one made"
    )


def _upgrade(connection: sa.Connection) -> None:
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    with _migrations_folder() as folder:
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        script = ScriptDirectory.from_config(config)
        steps = lambda revision, _context: script._upgrade_revs("head", revision)  # noqa: E731
        with EnvironmentContext(config, script, fn=steps) as environment:
            environment.configure(connection=connection)
            environment.run_migrations()


@contextmanager
def _migrations_folder() -> Iterator[Path]:
    """Yield the folder of migrations as a real path."""
    source = files("llmgw.store") / "migrations"
    if isinstance(source, Path):
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="llmgw-migrations-") as copy:
        versions = Path(copy) / "versions"
        versions.mkdir()
        for entry in (source / "versions").iterdir():
            if entry.name.endswith(".py"):
                (versions / entry.name).write_bytes(entry.read_bytes())
        yield Path(copy)
