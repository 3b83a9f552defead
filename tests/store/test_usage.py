"""Usage rows and their sums, on both databases."""

import random
import subprocess
import sys

import anyio
import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmgw.ports import UsageRow
from llmgw.store import keys, tables, usage
from llmgw.store.loop import Store
from tests.store.rows import usage_row

SUMS = usage._SUM_COLUMNS
KEYS = usage._KEY_COLUMNS


def _grouped(connection: sa.Connection) -> dict:
    """The oracle: what the sums must be, from the rows alone."""
    out: dict = {}
    for row in connection.execute(sa.select(tables.usage)):
        key = (
            int(row.at) - int(row.at) % 300,
            row.org_id,
            row.team_id,
            row.project_id,
            row.user_id,
            row.key_id,
            row.model,
        )
        counts = (
            1,
            row.outcome == "error",
            row.outcome == "limited",
            row.outcome == "blocked",
            bool(row.cache_hit),
            row.prompt_tokens,
            row.completion_tokens,
            row.cost_micros,
        )
        out[key] = tuple(a + b for a, b in zip(out.get(key, (0,) * 8), counts, strict=True))
    return out


def _sums(connection: sa.Connection) -> dict:
    rows = connection.execute(sa.select(tables.usage_5m))
    return {tuple(row._mapping[k] for k in KEYS): tuple(row._mapping[s] for s in SUMS) for row in rows}


def _both(connection: sa.Connection) -> tuple[dict, dict, int]:
    count = connection.execute(sa.select(sa.func.count()).select_from(tables.usage)).scalar_one()
    return _sums(connection), _grouped(connection), count


def _clear(connection: sa.Connection) -> None:
    connection.execute(tables.usage.delete())
    connection.execute(tables.usage_5m.delete())


class _Crash(Exception):
    pass


def test_sums_equal_their_rows_after_any_traffic_and_crashes_mid_batch(address: str) -> None:
    batch = st.tuples(st.lists(st.integers(0, 60), max_size=130), st.booleans())

    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(batches=st.lists(batch, max_size=5), seed=st.integers(0, 2**32))
    def check(batches: list, seed: int) -> None:
        pick = random.Random(seed)
        expected: set[str] = set()

        def write(connection: sa.Connection, rows: list[UsageRow], crashes: bool) -> None:
            usage.write(connection, rows)
            if crashes:
                raise _Crash

        async def main() -> None:
            async with Store(address) as store:
                await store.run(_clear)
                for numbers, crashes in batches:
                    rows = [usage_row(number, pick) for number in numbers]
                    try:
                        await store.run(write, rows, crashes)
                        expected.update(row.id for row in rows)
                    except _Crash:
                        pass
                    sums, grouped, count = await store.read(_both)
                    assert sums == grouped
                    assert count == len(expected)

        anyio.run(main, backend="trio")

    check()


def test_a_batch_written_twice_counts_once(address: str) -> None:
    async def main() -> None:
        rows = [usage_row(number) for number in range(120)]
        async with Store(address) as store:
            assert await store.run(usage.write, rows[:70]) == 70
            assert await store.run(usage.write, rows) == 50
            sums, grouped, count = await store.read(_both)
        assert count == 120
        assert sums == grouped

    anyio.run(main, backend="trio")


def test_a_row_reads_back_as_it_was_written(address: str) -> None:
    full = {
        field.name: {"str": f"{field.name}-Ünïcode ✓", "int": 12345678901, "float": 1.5, "bool": True}.get(
            getattr(field.type, "__name__", "int"), 7
        )
        for field in msgspec.structs.fields(UsageRow)
    } | {"status": 200, "request_id": "req-same"}

    async def main() -> None:
        whole = UsageRow(**full)
        later = usage_row(2, request_id="req-same")
        async with Store(address) as store:
            await store.run(usage.write, [later, whole])
            assert await store.read(usage.by_request_id, "req-same") == [whole, later]
            assert await store.read(usage.by_request_id, "req-other") == []

    anyio.run(main, backend="trio")


def test_a_rows_members_are_in_the_order_of_the_tables_columns() -> None:
    members = [field.name for field in msgspec.structs.fields(UsageRow)]
    assert ["at" if name == "at_unix" else name for name in members] == [column.name for column in tables.usage.columns]


@pytest.mark.covers("T-16")
def test_a_hundred_requests_of_a_key_write_its_last_use_once(address: str) -> None:
    def counted(connection: sa.Connection, rows: list[UsageRow]) -> int:
        writes = 0

        def count(_connection, _cursor, statement: str, *_rest) -> None:
            nonlocal writes
            writes += statement.startswith("UPDATE api_keys")

        sa.event.listen(connection, "before_cursor_execute", count)
        before = _last_used(connection)
        usage.write(connection, rows)
        return int(_last_used(connection) != before)

    def _last_used(connection: sa.Connection) -> float | None:
        return connection.execute(sa.select(tables.api_keys.c.last_used_at)).scalar()

    async def main() -> None:
        async with Store(address) as store:
            key = await store.run(keys.create, keys.NewKey(kind="service", hash="aa", prefix="llmgw_aaaaaa"))
            start = 1_800_000_000.0
            changes = 0
            for number in range(100):
                row = usage_row(number, key_id=key.id, at_unix=start + number * 0.5)
                changes += await store.run(counted, [row])
            assert changes == 1
            assert await store.read(_last_used) == start
            await store.run(usage.write, [usage_row(200, key_id=key.id, at_unix=start + 61)])
            assert await store.read(_last_used) == start + 61

    anyio.run(main, backend="trio")


_WRITER = """
import sys, anyio
from llmgw.store.loop import Store
from llmgw.store import usage
from tests.store.rows import usage_row
async def main():
    async with Store(sys.argv[1]) as store:
        number = 0
        while True:
            await store.run(usage.write, [usage_row(number + i) for i in range(10)])
            number += 10
            print(number, flush=True)
anyio.run(main, backend="trio")
"""


def test_killing_a_writing_process_loses_no_committed_row(address: str) -> None:
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, address], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        said = 0
        for line in process.stdout:
            said = int(line)
            if said >= 200:
                break
        process.kill()
        said = max([said, *(int(line) for line in process.stdout.read().split())])
        process.wait(20)

        async def main(said: int) -> None:
            async with Store(address) as store:
                sums, grouped, count = await store.read(_both)
            assert said <= count
            assert count % 10 == 0
            assert sums == grouped

        anyio.run(main, said, backend="trio")


def test_any_text_of_a_client_can_be_stored(address: str) -> None:
    async def main() -> None:
        odd = "a\x00b\ud800c"
        rows = [usage_row(1, model=odd, end_user=odd, request_id=odd), usage_row(2, model="x" * 5000)]
        async with Store(address) as store:
            await store.run(usage.write, rows)
            [found] = await store.read(usage.by_request_id, odd)
            assert found.model == "a\N{REPLACEMENT CHARACTER}b?c"
            sums, grouped, _ = await store.read(_both)
            assert sums == grouped

    anyio.run(main, backend="trio")
