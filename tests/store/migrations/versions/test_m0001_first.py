"""The first schema's first rows: what everything else expects to find."""

import anyio
import sqlalchemy as sa

from llmgw.store import epoch, lease, tables
from llmgw.store.lease import Lease
from llmgw.store.loop import Store


def test_a_new_store_has_its_epoch_a_free_lease_and_nothing_else(address: str) -> None:
    def counts(connection: sa.Connection) -> dict[str, int]:
        return {
            table.name: found
            for table in tables.metadata.sorted_tables
            if (found := connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())
        }

    async def main() -> None:
        async with Store(address) as store:
            assert await store.read(epoch.read) == 1
            assert await store.read(lease.read) == Lease("", "", 0, 0.0)
            rooms = ("orgs", "teams", "projects", "tenancy_epoch", "lease", "schema_releases")
            assert await store.read(counts) == dict.fromkeys(rooms, 1)

    anyio.run(main, backend="trio")
