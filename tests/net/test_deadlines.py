"""A bound around a block, on a clock that jumps."""

import trio

from llmgw.net.deadlines import within
from tests.net.client_listener import run


def test_a_block_ends_after_its_seconds_and_says_so() -> None:
    async def main() -> None:
        began = trio.current_time()
        with within(3600) as total:
            await trio.sleep_forever()
        assert total.cancelled_caught
        assert round(trio.current_time() - began) == 3600
        with within(3600) as total:
            pass
        assert not total.cancelled_caught

    run(main)
