"""Opening: a new store, an old one, one of a newer release, and what is no store at all."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from llmgw.config.refusal import Refused
from llmgw.ports import StoreUnavailable
from llmgw.store import nodes, schema, tables, tree
from llmgw.store.loop import Store
from llmgw.store.schema import StoreTooNew


def _run(fn, *args):
    return anyio.run(fn, *args, backend="trio")


async def _open(address: str) -> None:
    async with Store(address):
        pass


def test_the_migrations_build_what_the_tables_say(address: str) -> None:
    def difference(connection: sa.Connection) -> list:
        context = MigrationContext.configure(connection, opts={"compare_server_default": False})
        return [
            change
            for change in compare_metadata(context, tables.metadata)
            if "alembic_version" not in str(change)
        ]

    async def main() -> list:
        async with Store(address) as store:
            return await store.run(difference)

    assert _run(main) == []


def test_every_revision_there_is_is_known() -> None:
    from llmgw.store.migrations import versions

    folder = Path(versions.__path__[0])
    found = sorted(file.name[1:5] for file in folder.glob("m[0-9]*.py"))
    assert tuple(found) == schema.REVISIONS


def test_a_new_store_has_one_default_tree(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            [project] = await store.read(tree.all_projects)
        assert project.path == "default/default/default"
        assert [project.id[:4], project.team_id[:5], project.org_id[:4]] == ["prj-", "team-", "org-"]

    _run(main)


def test_opening_again_changes_nothing_and_loads_no_migrations(address: str) -> None:
    _run(_open, address)
    script = (
        "import sys, anyio\nfrom llmgw.store.loop import Store\n"
        "async def main():\n    async with Store(sys.argv[1]): pass\n"
        "anyio.run(main, backend='trio')\nassert 'alembic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script, address], check=True, timeout=60)


def test_a_store_of_a_newer_release_is_refused_by_name_and_left_as_it_is(address: str) -> None:
    def from_the_future(connection: sa.Connection) -> None:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
        row = {"revision": "9999", "release": "7.3.0", "at": 0}
        connection.execute(tables.schema_releases.insert(), row)

    async def main() -> None:
        async with Store(address) as store:
            await store.run(from_the_future)
        for _ in range(2):
            with pytest.raises(StoreTooNew) as caught:
                await _open(address)
            assert caught.value.status == 409
            for part in ("9999", "7.3.0", "0.1.0", schema.REVISIONS[-1], "restore a backup"):
                assert part in caught.value.sentence

    _run(main)


def test_tables_of_somebody_else_are_not_touched(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            await store.run(lambda c: c.execute(sa.text("DROP TABLE alembic_version")))
        with pytest.raises(Refused, match="not llmgw's"):
            await _open(address)

    _run(main)


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(b"milk, bread, " * 500)
    with pytest.raises(Refused, match=r"notes.txt is not an SQLite database"):
        _run(_open, str(file))
    assert file.read_bytes() == b"milk, bread, " * 500


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "llmgw.db"
    _run(_open, str(file))
    data = bytearray(file.read_bytes())
    data[100:4096] = os.urandom(3996)
    file.write_bytes(data)
    with pytest.raises(Refused, match="damaged"):
        _run(_open, str(file))


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="does not exist"):
        _run(_open, str(tmp_path / "nowhere" / "llmgw.db"))
    with pytest.raises(Refused, match="is a folder"):
        _run(_open, str(tmp_path))


def test_a_new_store_is_readable_by_its_owner_only(sqlite_address: str) -> None:
    async def main() -> None:
        async with Store(sqlite_address) as store:
            await store.run(nodes.remember, "a", "")
            modes = {file.name: file.stat().st_mode & 0o777 for file in Path(sqlite_address).parent.iterdir()}
        assert set(modes.values()) == {0o600}, modes

    _run(main)


def test_a_full_disk_is_said_and_leaves_nothing_half_written(sqlite_address: str) -> None:
    def fill(connection: sa.Connection) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 3}")

    def much(connection: sa.Connection) -> None:
        nodes.remember(connection, "first", "")
        for number in range(100):
            nodes.remember(connection, f"n{number}", "x" * 2000)

    async def main() -> None:
        async with Store(sqlite_address) as store:
            await store.run(fill)
            with pytest.raises(StoreUnavailable, match="database or disk is full"):
                await store.run(much)
            assert await store.read(nodes.known) == []
            await store.run(nodes.remember, "small", "")
            assert [node.id for node in await store.read(nodes.known)] == ["small"]

    _run(main)


def test_migrations_run_from_a_zip_that_was_not_unpacked(tmp_path: Path) -> None:
    import zipfile

    root = Path(schema.__file__).parents[2]
    archive = tmp_path / "llmgw.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for folder in ("store", "config"):
            for file in (root / "llmgw" / folder).rglob("*.py"):
                out.write(file, file.relative_to(root))
        for name in ("__init__.py", "ports.py"):
            out.write(root / "llmgw" / name, f"llmgw/{name}")
    script = (
        "import sys, anyio\nimport llmgw.store.schema as schema\nassert '.zip' in schema.__file__\n"
        "from llmgw.store.loop import Store\n"
        "async def main():\n    async with Store(sys.argv[1]): pass\n"
        "anyio.run(main, backend='trio')"
    )
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "a.db")],
        check=True,
        timeout=60,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(archive)},
    )
