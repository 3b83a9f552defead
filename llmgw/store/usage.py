"""Usage rows and their five-minute sums (T-34, T-37), always in one transaction, so that they cannot disagree.

Writing is idempotent by row id: a batch that is written again, because its outcome was unknown when PostgreSQL died
during COMMIT, adds nothing that is already there. Inserts go in slices of 50: a longer `executemany` holds the
interpreter, and with it every stream of the process. Rows go to the driver as plain tuples, since SQLAlchemy's way from
a row to its parameters cost more than the database's own work.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from llmgw.ports import UsageRow
from llmgw.store.dialect import insert, is_postgres, storable
from llmgw.store.tables import api_keys, usage, usage_5m

SLICE = 50
BUCKET_S = 300
LAST_USED_EVERY_S = 60.0
"""T-16: a key's last use is written at most this often."""

_KEY_COLUMNS = tuple(column.name for column in usage_5m.primary_key.columns)
_SUM_COLUMNS = tuple(column.name for column in usage_5m.columns if column.name not in _KEY_COLUMNS)
_ROW_COLUMNS = tuple(column.name for column in usage.columns)


def write(connection: sa.Connection, rows: Sequence[UsageRow]) -> int:
    """Insert rows and add them to their sums; return how many were new."""
    written: dict[str, UsageRow] = {}
    for part in _slices(list(rows)):
        there = _there(connection, part)
        fresh = {row.id: row for row in part if row.id not in there and row.id not in written}
        if fresh:
            connection.exec_driver_sql(_insert_text(connection), [_as_values(row) for row in fresh.values()])
            written.update(fresh)
    _add_sums(connection, list(written.values()))
    _touch_keys(connection, list(written.values()))
    return len(written)


def by_request_id(connection: sa.Connection, request_id: str) -> list[UsageRow]:
    """Return every row of one request id, oldest first: a client may choose the id, so there may be several."""
    query = (
        sa.select(usage).where(usage.c.request_id == storable(request_id)).order_by(usage.c.at, usage.c.id)
    )
    return [_as_row(row._mapping) for row in connection.execute(query)]


def _there(connection: sa.Connection, rows: Sequence[UsageRow]) -> set[str]:
    """Return those ids of rows that are written already."""
    query = f"SELECT id FROM usage WHERE id IN ({_marks(connection, len(rows))})"
    return set(connection.exec_driver_sql(query, tuple([storable(row.id) for row in rows])).scalars())


def _insert_text(connection: sa.Connection) -> str:
    names = ", ".join([connection.dialect.identifier_preparer.quote(name) for name in _ROW_COLUMNS])
    return f"INSERT INTO usage ({names}) VALUES ({_marks(connection, len(_ROW_COLUMNS))})"


def _marks(connection: sa.Connection, count: int) -> str:
    return ", ".join(["%s" if is_postgres(connection) else "?"] * count)


def _as_values(row: UsageRow) -> tuple[Any, ...]:
    """Return a row's values in the order of the table's columns, which is that of its members.

    A client chose some of the texts (`model`, `user`, the request id); all are looked at in one piece.
    """
    values = msgspec.structs.astuple(row)
    texts = "".join([value for value in values if isinstance(value, str)])
    if texts.isascii() and "\0" not in texts:
        return values
    return tuple([storable(value) if isinstance(value, str) else value for value in values])


def _as_row(columns: Any) -> UsageRow:
    values = dict(columns)
    values["at_unix"] = values.pop("at")
    return UsageRow(**values)


def _sum_key(row: UsageRow) -> tuple[Any, ...]:
    start = int(row.at_unix // BUCKET_S) * BUCKET_S
    return (start, row.org_id, row.team_id, row.project_id, row.user_id, row.key_id, storable(row.model))


def _counts(row: UsageRow) -> tuple[int, ...]:
    return (
        1,
        int(row.outcome == "error"),
        int(row.outcome == "limited"),
        int(row.outcome == "blocked"),
        int(row.cache_hit),
        row.prompt_tokens,
        row.completion_tokens,
        row.cost_micros,
    )


def _add_sums(connection: sa.Connection, rows: Sequence[UsageRow]) -> None:
    """Add rows to their buckets. Buckets are taken in order, so that two writers never wait for each other."""
    sums: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        total = sums.setdefault(_sum_key(row), [0] * len(_SUM_COLUMNS))
        for at, more in enumerate(_counts(row)):
            total[at] += more
    statement = insert(connection, usage_5m)
    statement = statement.on_conflict_do_update(
        index_elements=_KEY_COLUMNS,
        set_={name: usage_5m.c[name] + statement.excluded[name] for name in _SUM_COLUMNS},
    )
    for part in _slices(sorted(sums)):
        names = _KEY_COLUMNS + _SUM_COLUMNS
        connection.execute(statement, [dict(zip(names, (*key, *sums[key]), strict=True)) for key in part])


def _touch_keys(connection: sa.Connection, rows: Sequence[UsageRow]) -> None:
    """Note each key's last use, unless one within the minute is noted already."""
    latest: dict[str, float] = {}
    for row in rows:
        if row.key_id:
            latest[row.key_id] = max(row.at_unix, latest.get(row.key_id, 0.0))
    for key_id in sorted(latest):
        old = api_keys.c.last_used_at
        connection.execute(
            api_keys.update()
            .where(api_keys.c.id == key_id, old.is_(None) | (old <= latest[key_id] - LAST_USED_EVERY_S))
            .values(last_used_at=latest[key_id])
        )


def _slices(items: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(items), SLICE):
        yield items[start : start + SLICE]
