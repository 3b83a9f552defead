"""One task that ends the reads of many, on a clock that jumps."""

import pytest
import trio

from llmgw.net.deadlines import within
from llmgw.net.read_watch import ReadLate, ReadWatch
from tests.net.client_listener import run
from tests.net.test_socket_pipe import pair


def test_each_read_ends_at_its_own_deadline_whichever_was_told_first() -> None:
    async def main() -> None:
        late: list[float] = []

        async def read(until: float) -> None:
            async with pair() as (pipe, _far):
                with pytest.raises(ReadLate):
                    await watch.read(pipe, began + until)
                late.append(round(trio.current_time() - began))

        began = trio.current_time()
        async with ReadWatch() as watch, trio.open_nursery() as nursery:
            for until in (600, 120, 300):
                nursery.start_soon(read, until)
        assert late == [120, 300, 600]

    run(main)


def test_a_pipe_is_read_again_after_a_late_read() -> None:
    async def main() -> None:
        async with ReadWatch() as watch, pair() as (pipe, far):
            with pytest.raises(ReadLate):
                await watch.read(pipe, trio.current_time() + 5)
            await far.send_all(b"more")
            assert await watch.read(pipe, trio.current_time() + 5) == b"more"
            with pytest.raises(ReadLate):
                await watch.read(pipe, trio.current_time() + 7)

    run(main)


def test_a_read_that_is_cancelled_is_watched_no_more() -> None:
    async def main() -> None:
        async with ReadWatch() as watch, pair() as (pipe, far):
            with within(1):
                await watch.read(pipe, trio.current_time() + 5)
            await trio.sleep(10)
            await far.send_all(b"more")
            assert await watch.read(pipe, trio.current_time() + 5) == b"more"

    run(main)


def test_what_its_block_raises_comes_out_as_it_is() -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            async with ReadWatch():
                raise ZeroDivisionError

    run(main)
