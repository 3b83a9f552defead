"""The store's side of the ports."""

import anyio

from llmgw.ports import AuditEvent, AuditLog, RequestRecords
from llmgw.store import usage
from llmgw.store.audit import AuditQuery
from llmgw.store.loop import Store
from llmgw.store.records import StoreAuditLog, StoreRequestRecords
from tests.store.rows import usage_row


def test_rows_and_events_come_back_through_the_ports(address: str) -> None:
    event = AuditEvent(at_unix=1.0, actor="ada", source="api", action="model.add", target="m", result="ok")

    async def main() -> None:
        async with Store(address) as store:
            records: RequestRecords = StoreRequestRecords(store)
            log: AuditLog = StoreAuditLog(store)
            await store.run(usage.write, [usage_row(1)])
            await log.write(event)
            assert list(await records.by_request_id("req-1")) == [usage_row(1)]
            assert list(await StoreAuditLog(store).query(AuditQuery())) == [event]

    anyio.run(main, backend="trio")
