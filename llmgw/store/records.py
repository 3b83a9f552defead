"""The store's side of two small ports: usage rows read back, and audit events that travel alone."""

from collections.abc import Sequence

from llmgw.ports import AuditEvent, UsageRow
from llmgw.store import audit, usage
from llmgw.store.audit import AuditQuery
from llmgw.store.loop import Store


class StoreRequestRecords:
    """`ports.RequestRecords` on a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def by_request_id(self, request_id: str) -> Sequence[UsageRow]:
        """Return the rows of one request id, oldest first. Raises StoreUnavailable."""
        return await self._store.read(usage.by_request_id, request_id)


class StoreAuditLog:
    """`ports.AuditLog` on a store, which can also be read."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(self, event: AuditEvent) -> None:
        """Append one event. Raises StoreUnavailable."""
        await self._store.run(audit.insert, event)

    async def query(self, ask: AuditQuery) -> Sequence[AuditEvent]:
        """Return events, newest first. Raises StoreUnavailable."""
        return await self._store.read(audit.query, ask)
