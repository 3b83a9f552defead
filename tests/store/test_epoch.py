"""The tenancy epoch."""

import anyio
import sqlalchemy as sa

from llmgw.store import epoch, keys
from llmgw.store.loop import Store


def test_the_epoch_moves_with_the_change_and_not_without_it(address: str) -> None:
    class Stop(Exception):
        pass

    def create_then_fail(connection: sa.Connection) -> None:
        keys.create(connection, keys.NewKey(kind="service", hash="h", prefix="p"))
        raise Stop

    async def main() -> None:
        async with Store(address) as store:
            begin = await store.read(epoch.read)
            try:
                await store.run(create_then_fail)
            except Stop:
                pass
            assert await store.read(epoch.read) == begin
            await store.run(keys.create, keys.NewKey(kind="service", hash="h", prefix="p"))
            assert await store.read(epoch.read) == begin + 1

    anyio.run(main, backend="trio")
