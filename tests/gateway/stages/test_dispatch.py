"""Trying replicas in turn (S-50)."""

import trio

from llmgw.testing import fake_engine as acts
from tests.gateway.rig import played


def test_killing_one_of_two_replicas_under_load_is_seen_by_no_client():
    async def script(rig):
        rig.add_model()
        dying = await rig.add_engine()
        await rig.add_engine()
        await rig.settle()
        statuses = []

        async def client(stream: bool) -> None:
            for _ in range(10):
                answer = await rig.chat(stream=stream)
                statuses.append((answer.status_code, "error" in answer.text))

        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(client, bool(number % 2))
            await dying.until(lambda: len(dying.received) >= 5)
            dying.usual = acts.dies_before_its_first_byte
        assert statuses == [(200, False)] * 80
        assert dying.received

    played(script)


def test_load_is_spread_over_equal_replicas():
    async def script(rig):
        rig.add_model()
        engines = [await rig.add_engine() for _ in range(3)]
        for engine in engines:
            engine.usual = acts.hangs
            engine.metrics = b""
        await rig.settle()
        async with trio.open_nursery() as nursery:
            for _ in range(12):
                nursery.start_soon(rig.chat)
            for engine in engines:
                await engine.until(lambda engine=engine: engine.running == 4)
            nursery.cancel_scope.cancel()

    played(script)
