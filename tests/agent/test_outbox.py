"""The queue between a node's tasks and a link's sender."""

from __future__ import annotations

import anyio
import pytest
import trio
import trio.testing

from llmgw.agent.outbox import QUEUE_MESSAGES, LinkEnded, Outbox
from llmgw.wire.agent import ShardStatus


def test_a_full_queue_makes_senders_wait_and_never_grows() -> None:
    async def main() -> None:
        outbox = Outbox()
        for _ in range(QUEUE_MESSAGES):
            assert outbox.try_send(ShardStatus())
        assert not outbox.try_send(ShardStatus())
        with anyio.move_on_after(0.01) as scope:
            await outbox.send(ShardStatus())
        assert scope.cancelled_caught
        await outbox.queued().receive()
        await outbox.send(ShardStatus(shard_id="last"))

    trio.run(main)


@pytest.mark.covers("P-16")
def test_a_sender_that_waits_gives_up_when_the_link_ends() -> None:
    async def main() -> None:
        outbox = Outbox(1)
        outbox.try_send(ShardStatus())
        ended: list[str] = []

        async def send() -> None:
            with pytest.raises(LinkEnded):
                await outbox.send(ShardStatus())
            ended.append("told")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            outbox.close()
        assert ended == ["told"]
        assert not outbox.try_send(ShardStatus())
        with pytest.raises(LinkEnded):
            await outbox.send(ShardStatus())

    trio.run(main)
