"""A client that leaves, in every phase: the engine is told, the slot is free, what was produced is charged (S-20)."""

import json

import pytest
import trio

from llmgw.gateway.accounting import CLIENT_GONE
from llmgw.testing import fake_engine as acts
from tests.gateway.rig import MESSAGES, played

WITHIN_S = 1.0
pytestmark = pytest.mark.covers("S-20", "F-1")


async def send_raw(rig, stream: bool) -> trio.SocketStream:
    body = json.dumps({"model": "tiny", "messages": MESSAGES, "stream": stream}).encode()
    client = await trio.open_tcp_stream("127.0.0.1", rig.port)
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {rig.key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    await client.send_all(head.encode() + body)
    return client


async def gone(rig, engine) -> None:
    """The engine hears of it within a second, and the gateway holds nothing for the request any more."""
    with trio.fail_after(WITHIN_S):
        await engine.until(lambda: engine.running == 0)
    assert rig.gateway.replicas.inflight() == {}


@pytest.mark.parametrize("stream", [False, True])
def test_before_the_first_byte(stream):
    async def script(rig):
        rig.add_model()
        engine = await rig.add_engine(acts.hangs)
        await rig.settle()
        client = await send_raw(rig, stream)
        await engine.until(lambda: engine.running == 1)
        await client.aclose()
        await gone(rig, engine)
        row = await rig.row()
        assert (row.status, row.outcome, row.completion_tokens) == (CLIENT_GONE, "cancelled", 0)

    played(script)


@pytest.mark.parametrize("half", [False, True], ids=["closed", "half-closed"])
def test_in_the_middle_of_a_stream(half):
    async def script(rig):
        rig.add_model()
        engine = await rig.add_engine(acts.hangs_after(3))
        await rig.settle()
        client = await send_raw(rig, stream=True)
        got = b""
        while got.count(b"word ") < 3:
            got += await client.receive_some(65_536)
        await (client.send_eof() if half else client.aclose())
        await gone(rig, engine)
        row = await rig.row()
        assert (row.status, row.completion_tokens, row.tokens_estimated) == (CLIENT_GONE, 3, True)
        assert row.prompt_tokens > 0
        assert row.cost_micros > 0

    prices = {"tiny": 1_000_000}
    played(script, prompt_price_micros=prices, completion_price_micros=prices)


def test_while_a_whole_answer_is_gathered():
    async def script(rig):
        started = trio.Event()

        async def slowly(stage):
            await stage.head(content_type="application/json")
            await stage.chunk(b'{"choices": [')
            started.set()
            await trio.sleep_forever()

        rig.add_model()
        engine = await rig.add_engine(slowly)
        await rig.settle()
        client = await send_raw(rig, stream=False)
        await started.wait()
        await client.aclose()
        await gone(rig, engine)
        assert (await rig.row()).status == CLIENT_GONE

    played(script)


def test_while_waiting_for_the_model():
    async def script(rig):
        rig.add_model(status="starting")
        await rig.settle()
        client = await send_raw(rig, stream=True)
        while rig.gateway._demand.waiting() != {"tiny": 1}:
            await trio.sleep(0.01)
        await client.aclose()
        with trio.fail_after(WITHIN_S):
            while rig.gateway._demand.waiting():
                await trio.sleep(0.01)
        row = await rig.row()
        assert row.status == CLIENT_GONE
        assert row.replica_id == ""

    played(script)


@pytest.mark.covers("F-12")
def test_no_slot_is_left_after_many_clients_that_leave_or_time_out():
    async def script(rig):
        rig.add_model()
        engine = await rig.add_engine()
        engine.usual = acts.hangs_after(1)
        engine.metrics = b""
        await rig.settle()
        at_log: list[int] = []
        note = rig.log.info

        def log(message, **facts):
            at_log.append(sum(rig.gateway.replicas.inflight().values()))
            note(message, **facts)

        rig.gateway._log.info = log
        clients = [await send_raw(rig, stream=bool(number % 2)) for number in range(40)]
        await engine.until(lambda: engine.running == 40)
        assert rig.gateway.replicas.inflight() == {"tiny-0": 40}
        for client in clients[:20]:
            await client.aclose()
        await engine.until(lambda: engine.running <= 20)
        await engine.until(lambda: engine.running == 0)
        while len(rig.usage.rows) < 40:
            await trio.sleep(0.01)
        assert rig.gateway.replicas.inflight() == {}
        assert {row.status for row in rig.usage.rows} == {CLIENT_GONE, 504}
        assert all(held <= 40 - logged for logged, held in enumerate(at_log, start=1)), (
            "a slot outlived its log line"
        )
        page = (await rig.metrics.render()).decode()
        assert 'llmgw_inflight{model="tiny"} 0.0' in page
        for client in clients[20:]:
            await client.aclose()

    played(script, idle_s=1.5, first_byte_s=1.5)
