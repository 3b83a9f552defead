"""What another process changed in the store is noticed."""

import trio

from llmgw.store import keys
from llmgw.store.listen import Changes
from llmgw.store.loop import Store


def test_a_change_by_another_process_is_noticed(address: str) -> None:
    async def main() -> None:
        async with Store(address) as mine, Store(address) as other, trio.open_nursery() as nursery:
            changes = Changes(mine)
            await nursery.start(lambda task_status: changes.run(task_status=task_status))
            for _ in range(2):
                before = changes.stand
                name = f"h{before.tenancy_epoch}"
                await other.run(keys.create, keys.NewKey(kind="service", hash=name, prefix=name))
                with trio.fail_after(10):
                    after = await changes.changed(before)
                assert after.tenancy_epoch > before.tenancy_epoch
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_postgresql_notifies_listeners_without_waiting_for_the_poll(postgres_address: str) -> None:
    async def main() -> None:
        async with Store(postgres_address) as store, trio.open_nursery() as nursery:
            changes = Changes(store, poll_s=3600)
            await nursery.start(lambda task_status: changes.run(task_status=task_status))
            for _ in range(3):
                before = changes.stand
                name = f"h{before.tenancy_epoch}"
                with trio.fail_after(20):
                    await store.run(keys.create, keys.NewKey(kind="service", hash=name, prefix=name))
                    await changes.changed(before)
            nursery.cancel_scope.cancel()

    trio.run(main)
