"""Revoked certificates."""

import time

import anyio

from llmgw.store import revoked
from llmgw.store.loop import Store


def test_a_name_is_revoked_for_what_was_issued_before_now_and_a_serial_for_good(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            before = time.time()
            by_name = await store.run(revoked.add_name, "node-1", "ada", "removed")
            by_serial = await store.run(revoked.add_serial, "node-1", "0AFF", "ada", "lost")
            later = await store.run(revoked.add_name, "node-1", "bob", "removed again")
            assert by_name.not_before is not None
            assert by_name.not_before >= before
            assert (by_serial.serial, by_serial.not_before) == ("0aff", None)
            assert await store.read(revoked.all) == [later, by_serial]

    anyio.run(main, backend="trio")
