"""The store: one asyncio loop on a thread of its own, on which units of work run for the Trio side.

The drivers are made for asyncio. A unit of work is a plain function `fn(connection, *args)`; it runs in one transaction
and `await store.run(fn, *args)` returns its value after COMMIT.

The rule: **cancelled means rolled back, or committed and returned; never unknown.** The obvious way, cancelling the
asyncio task, fails on SQLite: the statement runs on in the driver's thread and holds the write lock. So a unit has
phases (`Phase`), and a cancellation acts by phase. Waiting for a connection: the task is cancelled. Working: on
PostgreSQL the task is cancelled (the driver cancels on the server, the connection is thrown away); on SQLite the
connection is interrupted, again and again since an interrupt between two statements is lost, and no further statement
begins. Ending: COMMIT or ROLLBACK has begun and is finished; the caller waits. The asyncio loop is one thread, so a
phase cannot change between the look and the act.

What this does not do: a connection to PostgreSQL that dies during COMMIT leaves the outcome unknown to everyone. It is
StoreUnavailable, and writers that retry must be idempotent (store/usage.py is).
"""

import asyncio
import contextlib
import enum
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import outcome
import sqlalchemy as sa
import trio
from sqlalchemy import event, exc
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from llmgw.ports import StoreUnavailable
from llmgw.store import engines, schema
from llmgw.store.faults import as_unavailable, is_locked
from llmgw.store.url import shown, sqlite_path, store_url

T = TypeVar("T")
_INTERRUPT_AGAIN_S = 0.01
_CLOSE_S = 10.0
_LOCK_RETRY_S = 0.02
_OPEN_AGAIN_S = 0.5


class Phase(enum.Enum):
    """Where a unit of work is, which decides what a cancellation does."""

    WAITING = 1
    WORKING = 2
    ENDING = 3


class _Abandoned(Exception):
    """Raised inside a unit whose caller was cancelled, so that it rolls back."""


class _Unit:
    """One unit of work, seen from the asyncio side."""

    def __init__(self, is_sqlite: bool) -> None:
        self.is_sqlite = is_sqlite
        self.phase = Phase.WAITING
        self.is_abandoned = False
        self.task: asyncio.Task[Any] | None = None
        self.driver: Any = None

    def abandon(self) -> None:
        """Make the unit end without a commit, unless its end has begun. Runs on the asyncio loop."""
        if self.task is None or self.task.done() or self.phase is Phase.ENDING:
            return
        self.is_abandoned = True
        if self.phase is Phase.WAITING or not self.is_sqlite:
            self.task.cancel()
            return
        if self.driver is not None:
            self.driver.interrupt()
        asyncio.get_running_loop().call_later(_INTERRUPT_AGAIN_S, self.abandon)


class Store:
    """The database, opened. `async with Store("path or postgres://...") as store`, then `await store.run(fn, ...)`.

    Opening creates or upgrades the schema. Refused: a file that is not a database, a folder that does not exist.
    StoreTooNew: a newer release made it. A PostgreSQL that is away does not fail the opening (F-15): every `run`
    raises StoreUnavailable until it answers, and the schema is looked at then.
    """

    def __init__(self, url: str, *, pool_size: int = 4, wait_s: float | None = None) -> None:
        self.url = store_url(url)
        self.is_sqlite = sqlite_path(self.url) is not None
        self.shown = shown(self.url)
        self._pool_size = 1 if self.is_sqlite else pool_size
        self._wait_s = wait_s if wait_s is not None else (5.0 if self.is_sqlite else 2.0)
        self._started = threading.Event()
        self._broken: BaseException | None = None
        self._is_current = False
        self._file: tuple[int, int] | None = None
        self._failed_opening: tuple[float, str] | None = None

    async def __aenter__(self) -> Self:
        engines.prepare_file(self.url)
        self._thread = threading.Thread(target=self._thread_main, name="store", daemon=True)
        self._thread.start()
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._started.wait)
        if self._broken is not None:
            raise self._broken
        try:
            await self._on_loop(lambda: self._make_current())
        except StoreUnavailable as away:
            if self.is_sqlite:
                await self._close()
                raise schema.not_a_store(self.shown, str(away)) from None
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._close()

    async def run(self, fn: Callable[..., T], *args: Any) -> T:
        """Run `fn(connection, *args)` in one transaction that may write, and return its value once committed.

        Raises what `fn` raises (then nothing was written) and StoreUnavailable. See the module for cancellation.
        """
        return await self._run(self._write, fn, args)

    async def read(self, fn: Callable[..., T], *args: Any) -> T:
        """Run `fn(connection, *args)` in a transaction that only reads, so that it waits for no writer on SQLite."""
        return await self._run(self._read, fn, args)

    async def on_loop(self, work: Callable[[], Awaitable[T]]) -> T:
        """Await `work()` on the asyncio side; a cancellation cancels it there. For store/listen.py."""
        return await self._on_loop(work)

    def waker(self, fn: Callable[[], None]) -> Callable[[], None]:
        """Return a function for the asyncio side that has `fn` called on the calling Trio loop."""
        token = trio.lowlevel.current_trio_token()

        def wake() -> None:
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(fn)

        return wake

    def libpq_address(self) -> str:
        """Return the address as libpq takes it, with its password; for store/listen.py."""
        return engines.libpq_address(self.url)

    # The Trio side.

    async def _run(self, lane: "_Lane", fn: Callable[..., T], args: tuple[Any, ...]) -> T:
        unit = _Unit(self.is_sqlite)
        return await self._on_loop(lambda: self._whole_unit(unit, lane, fn, args), unit)

    async def _on_loop(self, work: Callable[[], Awaitable[T]], unit: _Unit | None = None) -> T:
        """Park the calling task until `work()` ended over there, and return or raise its outcome."""
        await trio.lowlevel.checkpoint_if_cancelled()
        unit = unit or _Unit(is_sqlite=False)
        caller, token = trio.lowlevel.current_task(), trio.lowlevel.current_trio_token()
        raise_cancel: list[Callable[[], None]] = []

        def ended(task: asyncio.Task[T]) -> None:
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(trio.lowlevel.reschedule, caller, outcome.Value(task))

        def begin() -> None:
            unit.task = asyncio.ensure_future(_coroutine(work))
            unit.task.add_done_callback(ended)
            if raise_cancel:
                unit.abandon()

        def abort(raiser: Callable[[], None]) -> trio.lowlevel.Abort:
            raise_cancel.append(raiser)
            self._loop.call_soon_threadsafe(unit.abandon)
            return trio.lowlevel.Abort.FAILED

        try:
            self._loop.call_soon_threadsafe(begin)
        except RuntimeError:
            raise StoreUnavailable(f"the store {self.shown} is closed") from None
        task = await trio.lowlevel.wait_task_rescheduled(abort)
        if raise_cancel and (task.cancelled() or (task.exception() is not None and unit.is_abandoned)):
            raise_cancel[0]()
        if task.cancelled():
            raise StoreUnavailable(f"the store {self.shown} is closing")
        return task.result()

    async def _close(self) -> None:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSE_S):
            with contextlib.suppress(RuntimeError):  # its thread has ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
            await trio.to_thread.run_sync(self._thread.join, abandon_on_cancel=True)

    # The asyncio side.

    def _thread_main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._broken = error
            raise
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._opening = asyncio.Lock()
        self._write = _Lane(engines.writer(self.url, self._pool_size), self._pool_size, True)
        self._read = _Lane(engines.reader(self.url), 1, False) if self.is_sqlite else self._write
        self._started.set()
        await self._stop.wait()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        for lane in {self._write, self._read}:
            await lane.engine.dispose()

    async def _whole_unit(self, unit: _Unit, lane: "_Lane", fn: Callable[..., T], args: tuple[Any, ...]) -> T:
        """Run one unit, with the database's own errors turned into StoreUnavailable."""
        await self._make_current()
        if self.is_sqlite:
            self._check_file()
        try:
            async with self._slot(lane):
                return await self._transaction(unit, lane, fn, args)
        except exc.SQLAlchemyError as error:
            if (away := as_unavailable(error, self.shown)) is not None:
                raise away from None
            raise

    def _check_file(self) -> None:
        """Raise StoreUnavailable when the file that is open does not stand at its path any more.

        SQLite would go on reading and writing it: a deleted file takes every change, confirms it, and loses it with
        the process. It is not opened anew either, since closing the old one removes the -wal of whatever is there now.
        """
        now = engines.file_identity(self.url)
        if now is None:
            raise StoreUnavailable(f"the file of the store {self.shown} is gone: put it back")
        if now != self._file:
            raise StoreUnavailable(
                f"another file has taken the place of the store {self.shown}: put the old one back, "
                "or start llmgw anew to use this one"
            )

    @contextlib.asynccontextmanager
    async def _slot(self, lane: "_Lane") -> AsyncIterator[None]:
        """Hold one of the lane's connections, waiting at most `wait_s` for it."""
        try:
            async with asyncio.timeout(self._wait_s):
                await lane.slots.acquire()
        except TimeoutError:
            raise StoreUnavailable(f"the store {self.shown} was busy for {self._wait_s:g} s") from None
        try:
            yield
        finally:
            lane.slots.release()

    async def _transaction(
        self, unit: _Unit, lane: "_Lane", fn: Callable[..., T], args: tuple[Any, ...]
    ) -> T:
        async with lane.engine.connect() as connection:
            if self.is_sqlite:
                unit.driver = _Interruptible((await connection.get_raw_connection()).driver_connection)
            connection.info["unit"] = unit
            unit.phase = Phase.WORKING
            try:
                await self._begin(connection, writes=lane.writes)
                value = await connection.run_sync(fn, *args)
                if unit.is_abandoned:
                    raise _Abandoned
            except BaseException:
                unit.phase = Phase.ENDING
                await connection.rollback()
                raise
            unit.phase = Phase.ENDING
            await connection.commit()
            return value

    async def _begin(self, connection: AsyncConnection, *, writes: bool) -> None:
        """Open SQLite's transaction. The write lock is asked for in short waits, so that leaving is prompt."""
        if not self.is_sqlite:
            return
        until = self._loop.time() + self._wait_s
        while True:
            try:
                await connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
                return
            except exc.OperationalError as error:
                if not is_locked(error) or self._loop.time() >= until:
                    raise
                await asyncio.sleep(_LOCK_RETRY_S)

    async def _make_current(self) -> None:
        """Create or upgrade the schema, once. While that cannot be done every unit fails, those that waited at once."""
        if self._is_current:
            return
        async with self._opening:
            if self._failed_opening is not None and self._loop.time() < self._failed_opening[0]:
                raise StoreUnavailable(self._failed_opening[1])
            until = self._loop.time() + self._wait_s
            while not self._is_current:
                try:
                    await self._look_at_schema()
                    self._is_current = True
                except exc.SQLAlchemyError as error:
                    if is_locked(error) and self._loop.time() < until:  # another process makes the same file
                        await asyncio.sleep(_LOCK_RETRY_S)
                        continue
                    away = as_unavailable(error, self.shown)
                    if away is None:
                        raise
                    self._failed_opening = (self._loop.time() + _OPEN_AGAIN_S, str(away))
                    raise away from None

    async def _look_at_schema(self) -> None:
        """Do what there is to do, and make the reader's connection: one that is made later could be cancelled."""
        async with self._write.engine.connect() as connection:
            if not await connection.run_sync(schema.is_current):
                await connection.rollback()
                await self._begin(connection, writes=True)
                await connection.run_sync(schema.make_current, self.shown)
                await connection.commit()
        if self._read is not self._write:
            async with self._read.engine.connect() as connection:
                await connection.exec_driver_sql("SELECT 1")
        self._file = engines.file_identity(self.url)


class _Lane:
    """An engine and the slots that bound how many units use it at once."""

    def __init__(self, engine: AsyncEngine, slots: int, writes: bool) -> None:
        self.engine, self.slots, self.writes = engine, asyncio.Semaphore(slots), writes
        event.listen(engine.sync_engine, "before_cursor_execute", _refuse_when_abandoned)


class _Interruptible:
    """Interrupts a running SQLite statement from the asyncio side, without waiting for it."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._pending: set[asyncio.Task[None]] = set()

    def interrupt(self) -> None:
        task = asyncio.ensure_future(self._driver.interrupt())
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)


def _refuse_when_abandoned(connection: sa.Connection, *_: Any) -> None:
    """Begin no further statement for a caller that has left."""
    unit = connection.info.get("unit")
    if unit is not None and unit.is_abandoned and unit.phase is Phase.WORKING:
        raise _Abandoned


async def _coroutine(work: Callable[[], Awaitable[T]]) -> T:
    return await work()
