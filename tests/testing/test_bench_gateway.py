"""The gateway that `build.py bench` measures answers like the server's own: keys from a store, fixed replicas."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import httpx
import trio

from llmgw.testing.bench_gateway import MODELS, REPLICAS, bench_fleet, make_key, serve
from llmgw.testing.fake_engine import FakeEngine

QUESTION = {"model": "mock", "messages": [{"role": "user", "content": "hi"}]}


def test_it_serves_the_key_of_its_store_and_nobody_else(tmp_path: Path) -> None:
    async def main() -> None:
        store = str(tmp_path / "bench.db")
        with trio.fail_after(60):
            key = await make_key(store)
            async with trio.open_nursery() as nursery:
                engine = FakeEngine()
                await nursery.start(engine.serve)
                port = await nursery.start(partial(serve, store, 0, engine.port))
                async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
                    known = await client.post(
                        "/v1/chat/completions", json=QUESTION, headers={"authorization": f"Bearer {key}"}
                    )
                    unknown = await client.post(
                        "/v1/chat/completions", json=QUESTION, headers={"authorization": "Bearer sk-bench"}
                    )
                nursery.cancel_scope.cancel()
        assert (known.status_code, unknown.status_code) == (200, 401)

    trio.run(main)


def test_each_model_has_two_replicas_at_the_engine() -> None:
    replicas = bench_fleet(9001).replicas()
    assert sorted(replica.model for replica in replicas) == sorted(MODELS * REPLICAS)
    assert {replica.port for replica in replicas} == {9001}
