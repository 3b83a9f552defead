"""Noticing what other processes changed in the store: keys and owners (the epoch) and settings.

SQLite is polled every 500 ms. On PostgreSQL a connection of its own LISTENs, and a poll every 2 s stands behind it,
because a notification is lost whenever that connection is. Either way a change is known within a second.
"""

import contextlib
from collections.abc import Callable

import anyio
import sqlalchemy as sa
from anyio.abc import TaskStatus
from msgspec import Struct

from llmgw.ports import StoreUnavailable
from llmgw.store import epoch, settings
from llmgw.store.epoch import CHANNEL
from llmgw.store.loop import Store

_SQLITE_POLL_S = 0.5
_POSTGRES_POLL_S = 2.0
_LISTEN_AGAIN_S = 2.0


class Stand(Struct, frozen=True):
    """What the store stood at when it was last asked; (0, 0) before the first answer."""

    tenancy_epoch: int = 0
    settings_version: int = 0


class Changes:
    """Watches the store while `run` runs. `stand` is the newest seen, `is_away` whether the last look failed."""

    def __init__(self, store: Store, poll_s: float | None = None) -> None:
        self._store = store
        self._poll_s = poll_s or (_SQLITE_POLL_S if store.is_sqlite else _POSTGRES_POLL_S)
        self._moved = anyio.Event()
        self._woken = anyio.Event()
        self.stand = Stand()
        self.is_away = False

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Look until cancelled. Starts after the first look, whatever it found."""
        async with anyio.create_task_group() as tasks:
            await self.look()
            task_status.started()
            if not self._store.is_sqlite:
                tasks.start_soon(self._keep_listening)
            while True:
                with anyio.move_on_after(self._poll_s):
                    await self._woken.wait()
                await self.look()

    async def look(self) -> None:
        """Ask the store now."""
        self._woken = anyio.Event()
        try:
            found = await self._store.read(_stand)
        except StoreUnavailable:
            self.note(is_away=True)
            return
        self._set(found, is_away=False)

    def note(self, *, is_away: bool) -> None:
        """Take what somebody else's unit of work found out about the store."""
        self._set(self.stand, is_away=is_away)

    async def changed(self, after: Stand, was_away: bool = False) -> Stand:
        """Wait until the stand or the store's absence differs from what the caller knows; return the stand."""
        while self.stand == after and self.is_away == was_away:
            await self._moved.wait()
        return self.stand

    def _set(self, stand: Stand, *, is_away: bool) -> None:
        if (stand, is_away) != (self.stand, self.is_away):
            self.stand, self.is_away = stand, is_away
            self._moved.set()
            self._moved = anyio.Event()

    async def _keep_listening(self) -> None:
        """Hold a LISTEN connection, and make another when it is lost; the poll goes on meanwhile."""
        wake = self._store.waker(self._wake)
        while True:
            with contextlib.suppress(StoreUnavailable):
                await self._store.on_loop(lambda: self._listen(wake))
            await anyio.sleep(_LISTEN_AGAIN_S)

    def _wake(self) -> None:
        self._woken.set()

    async def _listen(self, wake: Callable[[], None]) -> None:
        """Asyncio side: call `wake` for each notification until the connection ends."""
        import psycopg  # a quarter of a second that SQLite need not pay

        try:
            connection = await psycopg.AsyncConnection.connect(self._store.libpq_address(), autocommit=True)
        except psycopg.Error:
            return
        try:
            await connection.execute(f"LISTEN {CHANNEL}")
            wake()
            async for _ in connection.notifies():
                wake()
        except psycopg.Error:
            return
        finally:
            await connection.close()


def _stand(connection: sa.Connection) -> Stand:
    return Stand(epoch.read(connection), settings.version(connection))
