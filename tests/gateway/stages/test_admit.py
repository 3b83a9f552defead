"""Waiting for a model, and being told at once when waiting is of no use."""

import msgspec
import pytest
import trio

from tests.gateway.rig import played


def change(rig, **facts) -> None:
    rig.models = [msgspec.structs.replace(rig.models[0], **facts)]
    rig.publish()


@pytest.mark.covers("L-22")
@pytest.mark.parametrize("status", ["starting", "on demand", "short", "serving"])
def test_a_request_waits_for_its_model_and_is_demand_meanwhile(status):
    async def script(rig):
        rig.add_model(status=status, on_demand=True)
        await rig.settle()
        answers = []

        async def ask():
            answers.append(await rig.chat(stream=True))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while not any(report.waiting == {"tiny": 1} for report in rig.fleet.reports):
                await trio.sleep(0.01)
            assert any(report.arrived == {"tiny": 1} for report in rig.fleet.reports)
            change(rig, status="starting")
            await rig.settle()
            assert answers == []
            await rig.add_engine()
        assert answers[0].status_code == 200
        assert int(answers[0].headers["x-llmgw-queue-ms"]) > 0
        row = await rig.row()
        assert row.queue_ms > 0
        while rig.fleet.reports[-1].waiting:
            await trio.sleep(0.01)

    played(script)


@pytest.mark.parametrize(
    ("status", "words"),
    [("parked", "parked"), ("waiting for room", "waiting for room"), ("stopped", "is stopped")],
)
def test_a_model_that_will_not_come_is_told_at_once_with_its_reason(status, words):
    async def script(rig):
        rig.add_model(status=status, reason="no node has 80 GiB free")
        await rig.settle()
        answer = await rig.chat()
        assert answer.status_code == 503
        error = answer.json()["error"]
        assert error["code"] == "model_loading"
        assert words in error["message"]
        assert "no node has 80 GiB free." in error["message"]
        assert int(answer.headers["retry-after"]) >= 1

    played(script)


def test_a_model_that_is_parked_while_a_request_waits_ends_the_wait():
    async def script(rig):
        rig.add_model(status="starting")
        await rig.settle()
        answers = []

        async def ask():
            answers.append(await rig.chat())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while not any(report.waiting for report in rig.fleet.reports):
                await trio.sleep(0.01)
            change(rig, status="parked", reason="it failed 5 times")
        assert answers[0].status_code == 503
        assert "it failed 5 times" in answers[0].json()["error"]["message"]

    played(script)


def test_a_model_that_is_removed_while_a_request_waits_is_not_served():
    async def script(rig):
        rig.add_model(status="starting")
        await rig.settle()
        async with trio.open_nursery() as nursery:
            answers = []

            async def ask():
                answers.append(await rig.chat())

            nursery.start_soon(ask)
            while not any(report.waiting for report in rig.fleet.reports):
                await trio.sleep(0.01)
            rig.models = []
            rig.publish()
        assert answers[0].json()["error"]["code"] == "model_not_served"

    played(script)


@pytest.mark.covers("L-22")
@pytest.mark.parametrize(("status", "code"), [("starting", "model_loading"), ("serving", "overloaded")])
def test_the_wait_has_an_end_and_says_when_to_come_back(status, code):
    async def script(rig):
        rig.add_model(status=status)
        await rig.settle()
        answer = await rig.chat()
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == code
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        row = await rig.row()
        assert (row.status, row.outcome) == (503, "error")
        assert row.queue_ms >= 200

    played(script, load_wait_s=0.2)
