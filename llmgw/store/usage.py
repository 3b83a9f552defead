"""Usage rows and their five-minute sums (T-34, T-37), always in one transaction, so that they cannot disagree.

Writing is idempotent by row id: a batch that is written again, because its outcome was unknown when PostgreSQL died
during COMMIT, adds nothing that is already there. Inserts go in slices of 50: a longer `executemany` holds the
interpreter, and with it every stream of the process.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from llmgw.ports import UsageRow
from llmgw.store.dialect import insert, storable
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
        there = set(
            connection.execute(sa.select(usage.c.id).where(usage.c.id.in_([r.id for r in part]))).scalars()
        )
        fresh = {row.id: row for row in part if row.id not in there and row.id not in written}
        if fresh:
            connection.execute(usage.insert(), [_as_columns(row) for row in fresh.values()])
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


def _as_columns(row: UsageRow) -> dict[str, Any]:
    columns = msgspec.structs.asdict(row)
    columns["at"] = columns.pop("at_unix")
    return {name: _storable(columns[name]) for name in _ROW_COLUMNS}


def _storable(value: Any) -> Any:
    """A client chose some of these texts (`model`, `user`, the request id)."""
    return storable(value) if isinstance(value, str) else value


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
        total[:] = [have + more for have, more in zip(total, _counts(row), strict=True)]
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
