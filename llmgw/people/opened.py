"""One unit of work on a store that a command opens for itself, so that it works with the server stopped."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import anyio

from llmgw.config.refusal import Refused
from llmgw.ports import AuditEvent, StoreUnavailable
from llmgw.store import audit, engines
from llmgw.store.loop import Store
from llmgw.store.url import sqlite_path, store_url

T = TypeVar("T")


def on_store(
    address: str, fn: Callable[..., T], *args: Any, refused: Callable[[Refused], AuditEvent] | None = None
) -> T:
    """Open the store, run `fn(connection, *args)` in one transaction, close it, and return the value.

    `refused` makes the audit event of a refusal, which is written too. An SQLite store must exist: a mistyped path is
    not a new store. Raises Refused, also where the store is away.
    """
    _become_owner(address)

    async def work() -> T:
        async with Store(address) as store:
            try:
                return await store.run(fn, *args)
            except Refused as refusal:
                if refused is not None:
                    await store.run(audit.insert, refused(refusal))
                raise

    try:
        return anyio.run(work, backend="trio")
    except StoreUnavailable as away:
        raise Refused(503, str(away)) from None


def _become_owner(address: str) -> None:
    """Require the file of an SQLite store; root acts as its owner, so that no `-wal` of root's is left behind."""
    path = sqlite_path(store_url(address))
    if path is None:
        return
    try:
        owner = path.stat()
    except OSError as error:
        raise Refused(
            404,
            f"there is no store at {path} ({error.strerror}); start llmgw once, or name the store with --store",
        ) from None
    if os.geteuid() == 0 and owner.st_uid != 0:
        engines.import_all()
        anyio.run(anyio.sleep, 0, backend="trio")  # imports trio and its clock before root's folders close
        os.setgroups([])
        os.setgid(owner.st_gid)
        os.setuid(owner.st_uid)
