"""Reading engines' load pages (S-42)."""

import pytest
import trio

from llmgw.gateway.replicas import Gauges
from llmgw.gateway.scrape import gauges_of
from llmgw.testing import fake_engine as acts
from tests.gateway.rig import ENGINE_KEY, played

PAGES = {
    "llamacpp": b"# HELP x\nllamacpp:requests_processing 2\nllamacpp:requests_deferred 1\nllamacpp:other 9\n",
    "vllm": b'vllm:num_requests_running{engine="0"} 2\nvllm:num_requests_running{engine="1"} 3\n'
    b'vllm:num_requests_waiting{engine="0"} 1\nvllm:kv_cache_usage_perc{engine="0"} 0.25\n'
    b'vllm:kv_cache_usage_perc{engine="1"} 0.75\n',
    "sglang": b"sglang:num_running_reqs 2\nsglang:num_queue_reqs 0\nsglang:token_usage 0.5\n",
    "trtllm": b"trtllm_num_requests_running 1\ntrtllm_num_requests_waiting 4\ntrtllm_kv_cache_utilization 0.1\n",
}
READ = {
    "llamacpp": Gauges(2.0, 1.0, None),
    "vllm": Gauges(5.0, 1.0, 0.75),
    "sglang": Gauges(2.0, 0.0, 0.5),
    "trtllm": Gauges(1.0, 4.0, 0.1),
}


@pytest.mark.covers("S-42")
@pytest.mark.parametrize("engine", PAGES)
def test_each_engines_names_are_known(engine):
    assert gauges_of(engine, PAGES[engine]) == READ[engine]


def test_older_names_serve_where_newer_are_missing():
    assert gauges_of("vllm", b"vllm:gpu_cache_usage_perc 0.5\n").kv_use == 0.5


@pytest.mark.covers("S-42")
@pytest.mark.parametrize("page", [b"", b"<html>", b"llamacpp:requests_processing NaN\n", b"\xff\xfe"])
def test_what_is_missing_is_unknown_and_never_zero(page):
    assert gauges_of("llamacpp", page) == Gauges()


def test_an_engine_nobody_mapped_is_unknown():
    assert gauges_of("strange", PAGES["vllm"]) == Gauges()


@pytest.mark.covers("S-42", "E-136")
def test_a_hung_engine_becomes_stale_and_its_neighbour_is_read():
    async def script(rig):
        hung = await trio.open_tcp_listeners(0, host="127.0.0.1")
        rig.add_model()
        rig.add_route(hung[0].socket.getsockname()[1])
        good = await rig.add_engine()
        good.metrics = PAGES["llamacpp"]
        await rig.settle()
        for _ in range(3):
            await rig.gateway._scraper.scrape_all(0.1)
        stale, fresh = rig.gateway.replicas.candidates("tiny")
        assert (stale.is_stale, fresh.is_stale) == (True, False)
        assert (fresh.running, fresh.waiting) == (2.0, 1.0)
        hung[0].socket.close()

    played(script)


@pytest.mark.covers("S-42")
def test_the_replicas_key_is_sent():
    async def script(rig):
        rig.add_model()
        seen = []
        engine = await rig.add_engine()
        page = engine._page

        async def watch(stage: acts.Stage) -> None:
            seen.append((stage.request.path, stage.request.headers["authorization"]))
            await page(stage)

        engine._page = watch
        await rig.settle()
        await rig.gateway._scraper.scrape_all(2.0)
        assert ("/metrics", f"Bearer {ENGINE_KEY}") in seen

    played(script)
