"""The store behind the Protocols that the admin API and the leader take."""

from collections.abc import Sequence

from llmgw.admin.audit import AuditAsk
from llmgw.ports import AuditEvent, UsageRow
from llmgw.store import audit, usage
from llmgw.store.loop import Store
from llmgw.wire.admin import AuditEventView, rfc3339


class StoredAudit:
    """`AuditLog` and the admin API's `AuditReader`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(self, event: AuditEvent) -> None:
        """Append one event. Raises StoreUnavailable."""
        await self._store.run(audit.insert, event)

    async def query(self, ask: AuditAsk) -> Sequence[AuditEventView]:
        """Return events, newest first. Raises StoreUnavailable."""
        wanted = audit.AuditQuery(
            since_unix=ask.since_unix,
            until_unix=ask.until_unix,
            actor=ask.actor,
            source=ask.source,
            action=ask.action,
            target=ask.target,
            result=ask.result,
            limit=ask.limit,
            before_id=ask.before,
        )
        found = await self._store.read(audit.page, wanted)
        return [_view(number, event) for number, event in found]


def _view(number: int, event: AuditEvent) -> AuditEventView:
    return AuditEventView(
        id=number,
        at=rfc3339(event.at_unix),
        actor=event.actor,
        source=event.source,
        action=event.action,
        target=event.target,
        result=event.result,
        status=event.status,
        error=event.error,
        address=event.address,
        control_plane=event.control_plane,
        fields=event.fields,
        before=event.before,
        after=event.after,
    )


class StoredRequests:
    """`RequestRecords` of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def by_request_id(self, request_id: str) -> Sequence[UsageRow]:
        """Return the rows of one request id, oldest first. Raises StoreUnavailable."""
        return await self._store.read(usage.by_request_id, request_id)
