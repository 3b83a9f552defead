"""The usage recorder (T-36): rows queue in memory and are written in batches, and no request ever waits for it.

A full buffer drops the new row and counts it. A row that the database refuses is dropped alone. A failed write keeps
its batch at the head of the buffer and is tried again, more and more rarely up to two seconds. Rows wait here while the
store is away; a kill -9 loses what is here, at most one flush interval of a store that answers.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice

import anyio
from anyio.abc import TaskStatus
from sqlalchemy.exc import SQLAlchemyError

from llmgw.ports import StoreUnavailable, UsageRow
from llmgw.store import usage
from llmgw.store.loop import Store

_LONGEST_PAUSE_S = 2.0
_SHUTDOWN_S = 10.0
_SAY_EVERY_S = 60.0


class UsageRecorder:
    """Takes usage rows with `put` and writes them while `run` runs. Figures are plain attributes.

    `dropped` is llmgw_usage_dropped_total; `written`, `failed_writes` count rows and attempts; `waiting()` rows now.
    `warn(sentence)` is called at most once a minute while rows are dropped, and once when the store goes away.
    """

    def __init__(
        self,
        store: Store,
        *,
        flush_interval_s: float = 0.2,
        batch_size: int = 500,
        buffer_size: int = 8192,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self._store = store
        self._flush_interval_s, self._batch_size, self._buffer_size = (
            flush_interval_s,
            batch_size,
            buffer_size,
        )
        self._warn = warn or (lambda _sentence: None)
        self._rows: deque[UsageRow] = deque()
        self._full_batch = anyio.Event()
        self._said_at: float | None = None
        self._said_dropped = 0
        self._is_away = False
        self.dropped = 0
        self.written = 0
        self.failed_writes = 0

    def put(self, row: UsageRow) -> None:
        """Queue one row; a full buffer drops it."""
        if len(self._rows) >= self._buffer_size:
            self.dropped += 1
            return
        self._rows.append(row)
        if len(self._rows) >= self._batch_size:
            self._full_batch.set()

    def waiting(self) -> int:
        """Return how many rows are not written yet."""
        return len(self._rows)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Write batches until cancelled, then write what is left, for at most ten seconds."""
        task_status.started()
        pause_s = self._flush_interval_s
        try:
            while True:
                with anyio.move_on_after(pause_s):
                    await self._next_batch(is_away=self._is_away)
                pause_s = (
                    self._flush_interval_s if await self._drain() else min(pause_s * 2, _LONGEST_PAUSE_S)
                )
                self._say_dropped()
        finally:
            with anyio.move_on_after(_SHUTDOWN_S, shield=True):
                await self._drain()
            if self._rows:
                self._warn(f"{len(self._rows)} usage rows could not be written before the end and are lost")

    async def _next_batch(self, *, is_away: bool) -> None:
        """Wait for a full batch; while the store is away only the pause ends the wait."""
        if is_away:
            await anyio.sleep_forever()
        await self._full_batch.wait()

    async def _drain(self) -> bool:
        """Write until the buffer is empty; False when the store did not take a batch, which then stays."""
        self._full_batch = anyio.Event()
        while self._rows:
            batch = tuple(islice(self._rows, self._batch_size))
            try:
                await self._store.run(usage.write, batch)
            except StoreUnavailable as away:
                self.failed_writes += 1
                if not self._is_away:
                    self._warn(f"usage rows wait in memory: {away}")
                self._is_away = True
                return False
            except SQLAlchemyError:
                await self._write_singly(batch)
            else:
                self.written += len(batch)
            self._is_away = False
            for _ in batch:
                self._rows.popleft()
        return True

    async def _write_singly(self, batch: tuple[UsageRow, ...]) -> None:
        """Write a batch of which the database refuses a row: without that row, which is dropped and counted."""
        for row in batch:
            try:
                await self._store.run(usage.write, (row,))
                self.written += 1
            except SQLAlchemyError as error:
                self.dropped += 1
                self._warn(f"the store refused the usage row {row.id}: {type(error).__name__}")

    def _say_dropped(self) -> None:
        now = anyio.current_time()
        if self.dropped == self._said_dropped or (
            self._said_at is not None and now - self._said_at < _SAY_EVERY_S
        ):
            return
        self._warn(
            f"{self.dropped - self._said_dropped} usage rows were dropped: {self._buffer_size} wait already"
        )
        self._said_at, self._said_dropped = now, self.dropped
