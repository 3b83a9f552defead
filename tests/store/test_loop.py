"""The store's loop, on both databases: what cancelled means (architecture.md, section 4), and a store that is away."""

import random
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import anyio
import pytest
import sqlalchemy as sa
import trio

from llmgw.ports import StoreUnavailable
from llmgw.store import nodes, tables
from llmgw.store.loop import Store
from tests.store.postgres_server import PostgresServer

_FOREVER = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000000) SELECT max(i) FROM n",
    "postgresql": "SELECT pg_sleep(100000)",
}


def _names(connection: sa.Connection) -> set[str]:
    return {node.id for node in nodes.known(connection)}


def test_rows_of_a_storm_of_cancelled_writes_are_those_of_the_calls_that_returned(address: str) -> None:
    returned: set[str] = set()
    cancelled: set[str] = set()
    seed = random.Random(20261201)

    def several_statements(connection: sa.Connection, name: str) -> str:
        nodes.remember(connection, name, "10.0.0.1")
        connection.execute(sa.select(sa.func.count()).select_from(tables.nodes)).scalar()
        connection.execute(
            tables.node_labels.insert(), [{"node": name, "key": f"k{i}", "value": ""} for i in range(20)]
        )
        return name

    async def one(store: Store, name: str, patience_s: float) -> None:
        with trio.move_on_after(patience_s):
            try:
                returned.add(await store.run(several_statements, name))
            except trio.Cancelled:
                cancelled.add(name)
                raise

    async def main() -> None:
        async with Store(address, wait_s=30) as store:
            for round_number in range(8):
                async with trio.open_nursery() as nursery:
                    for number in range(25):
                        nursery.start_soon(one, store, f"n{round_number}-{number}", seed.random() ** 2 * 0.12)
            with trio.fail_after(10):
                there = await store.read(_names)
                labels = await store.read(nodes.labels)
        assert there == returned
        assert {name for name, of_node in labels.items() if len(of_node) == 20} == returned
        assert set(labels) == returned
        assert cancelled
        assert returned
        assert not cancelled & returned

    trio.run(main)


def test_a_statement_that_runs_for_ever_ends_with_its_caller_and_holds_no_lock(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            backend = "sqlite" if store.is_sqlite else "postgresql"

            def write_then_hang(connection: sa.Connection) -> None:
                nodes.remember(connection, "never", "10.0.0.1")
                connection.execute(sa.text(_FOREVER[backend])).all()

            with trio.move_on_after(0.2) as scope:
                await store.run(write_then_hang)
            assert scope.cancelled_caught
            with trio.fail_after(5):
                await store.run(nodes.remember, "after", "10.0.0.2")
            assert await store.read(_names) == {"after"}

    trio.run(main)


def test_a_caller_that_leaves_between_two_statements_rolls_back(address: str) -> None:
    async def main() -> None:
        started = trio.Event()

        async with Store(address) as store:
            tell = store.waker(started.set)

            def slow_python(connection: sa.Connection) -> None:
                nodes.remember(connection, "a", "")
                tell()
                until = time.monotonic() + 0.2
                while time.monotonic() < until:
                    connection.execute(sa.select(1)).scalar()
                nodes.remember(connection, "b", "")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(store.run, slow_python)
                await started.wait()
                nursery.cancel_scope.cancel()
            assert await store.read(_names) == set()

    trio.run(main)


def test_a_caller_that_leaves_while_it_waits_for_the_writer_writes_nothing(sqlite_address: str) -> None:
    async def main() -> None:
        async with Store(sqlite_address) as one, Store(sqlite_address) as other:
            tell_started, go_on = trio.Event(), []

            def hold(connection: sa.Connection) -> None:
                nodes.remember(connection, "holder", "")
                tell()
                until = time.monotonic() + 10
                while not go_on and time.monotonic() < until:
                    connection.execute(sa.select(1)).scalar()

            tell = one.waker(tell_started.set)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(one.run, hold)
                await tell_started.wait()
                for store in (one, other):
                    with trio.move_on_after(0.1) as scope:
                        await store.run(nodes.remember, "waiting", "")
                    assert scope.cancelled_caught
                go_on.append(True)
            assert await other.read(_names) == {"holder"}

    trio.run(main)


def test_an_error_in_a_unit_rolls_it_back_and_reaches_the_caller(address: str) -> None:
    class Odd(Exception):
        pass

    def fails(connection: sa.Connection) -> None:
        nodes.remember(connection, "a", "")
        raise Odd("no")

    async def main() -> None:
        async with Store(address) as store:
            with pytest.raises(Odd):
                await store.run(fails)
            with pytest.raises(sa.exc.IntegrityError):
                await store.run(
                    lambda c: c.execute(
                        tables.nodes.insert(), [{"id": "x", "address": "", "joined_at": 0}] * 2
                    )
                )
            assert await store.read(_names) == set()

    anyio.run(main, backend="trio")


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with Store(str(tmp_path / "a.db")) as store:
            pass
        with pytest.raises(StoreUnavailable, match="closed"):
            await store.run(nodes.known)

    trio.run(main)


def test_a_deleted_file_takes_no_change_and_is_used_again_when_it_is_back(tmp_path: Path) -> None:
    """SQLite writes on into a file that was deleted: a cordon was confirmed that no restart would have found."""
    path, aside = tmp_path / "a.db", tmp_path / "aside.db"

    async def main() -> None:
        async with Store(str(path)) as store:
            await store.run(nodes.remember, "before", "")
            path.rename(aside)
            for unit in (store.run(nodes.remember, "during", ""), store.read(nodes.known)):
                with pytest.raises(StoreUnavailable, match="is gone: put it back"):
                    await unit
            path.write_bytes(b"")
            with pytest.raises(StoreUnavailable, match="another file has taken the place"):
                await store.run(nodes.remember, "during", "")
            aside.replace(path)
            await store.run(nodes.remember, "after", "")
        async with Store(str(path)) as store:
            assert {node.id for node in await store.read(nodes.known)} == {"before", "after"}

    trio.run(main)


def test_a_postgresql_that_is_killed_is_away_at_once_and_heals(
    postgres: PostgresServer, postgres_address: str
) -> None:
    async def main() -> None:
        async with Store(postgres_address) as store:
            await store.run(nodes.remember, "before", "")
            await trio.to_thread.run_sync(postgres.kill)
            try:
                for _ in range(3):
                    with trio.fail_after(5), pytest.raises(StoreUnavailable):
                        await store.run(nodes.remember, "during", "")
            finally:
                await trio.to_thread.run_sync(postgres.start)
            await store.run(nodes.remember, "after", "")
            assert {node.id for node in await store.read(nodes.known)} == {"before", "after"}

    trio.run(main)


_OTHER = """
import sys, anyio
from llmgw.store.loop import Store
from llmgw.store import nodes
async def main():
    async with Store(sys.argv[1], wait_s=60) as store:
        for number in range(150):
            await store.run(nodes.remember, f"other-{number}", "")
anyio.run(main, backend="trio")
"""


def test_two_processes_write_one_file(address: str) -> None:
    """Neither loses a write nor fails for the other's lock, a new file's first second included."""
    other = subprocess.Popen([sys.executable, "-c", _OTHER, address])

    async def main() -> None:
        async with Store(address, wait_s=60) as store:
            for number in range(150):
                await store.run(nodes.remember, f"mine-{number}", "")
            assert await trio.to_thread.run_sync(other.wait, 60) == 0
            names = {node.id for node in await store.read(nodes.known)}
        assert names == {f"{who}-{number}" for who in ("mine", "other") for number in range(150)}

    try:
        trio.run(main)
    finally:
        other.kill()
        other.wait()


def test_waiting_for_a_busy_store_ends_with_a_sentence(sqlite_address: str) -> None:
    async def main() -> None:
        started, release = trio.Event(), []
        async with Store(sqlite_address, wait_s=0.2) as one, Store(sqlite_address, wait_s=0.2) as other:
            tell = one.waker(started.set)

            def hold(connection: sa.Connection) -> None:
                nodes.remember(connection, "holder", "")
                tell()
                while not release:
                    connection.execute(sa.select(1)).scalar()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(one.run, hold)
                await started.wait()
                with pytest.raises(StoreUnavailable, match="busy"):
                    await one.run(nodes.remember, "a", "")
                with pytest.raises(StoreUnavailable, match="locked by another process"):
                    await other.run(nodes.remember, "a", "")
                assert await other.read(nodes.known) == []
                release.append(True)

    trio.run(main)


def test_everyone_who_waits_for_a_store_that_is_away_is_told_together() -> None:
    """Many units against a PostgreSQL that was never there: one attempt answers them all."""
    attempts: list[int] = []

    async def answer(stream: trio.SocketStream) -> None:
        attempts.append(1)
        await stream.aclose()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            listener, *_ = await nursery.start(partial(trio.serve_tcp, host="127.0.0.1"), answer, 0)
            port = listener.socket.getsockname()[1]
            async with Store(f"postgres://u@127.0.0.1:{port}/x") as store:
                refused = []

                async def ask() -> None:
                    try:
                        await store.read(nodes.known)
                    except StoreUnavailable as away:
                        refused.append(str(away))

                async with trio.open_nursery() as asking:
                    for _ in range(50):
                        asking.start_soon(ask)
                assert len(refused) == 50
                assert len(attempts) < 10
            nursery.cancel_scope.cancel()

    trio.run(main)
