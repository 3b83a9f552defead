"""A gateway on real sockets: the listener, the port, and engines that do as told."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import trio

from llmgw.control.port import LocalControl
from llmgw.gateway.pipeline import Gateway
from llmgw.net.engine_pool import EnginePool
from llmgw.net.http1_server import Http1Server
from llmgw.net.limits import ListenerLimits
from llmgw.net.listeners import open_listeners
from llmgw.obs.metrics import Metrics
from llmgw.ports import GatewaySettings, ModelRoute, Principal, ReplicaRoute, UsageRow
from llmgw.testing.fake_engine import Act, FakeEngine
from llmgw.testing.memory_fleet import MemoryFleet, MemoryKeys, MemoryUsage
from llmgw.wire.api_key import PREFIX, checksum, digest

ENGINE_KEY = "engine-secret"


def api_key(letter: str = "A") -> str:
    body = PREFIX + letter * 40
    return body + checksum(body)


class Log:
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def info(self, message: str, **facts: Any) -> None:
        self.lines.append({"message": message, **facts})

    error = info


class Rig:
    """Everything in one place. `key` is a key that may use every model."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.key = api_key()
        self.settings = settings
        self.fleet = MemoryFleet()
        self.keys = MemoryKeys()
        self.usage = MemoryUsage()
        self.metrics = Metrics()
        self.log = Log()
        self.engines: list[FakeEngine] = []
        self.routes: list[ReplicaRoute] = []
        self.models: list[ModelRoute] = []
        self.port = 0
        self.add_key(self.key)

    def add_key(self, key: str, **facts: Any) -> Principal:
        hashed = digest(key)
        principal = Principal(f"key-{key[6]}", "project", hashed, "org", "team", "project", "", **facts)
        self.keys.principals[hashed] = principal
        return principal

    def add_model(self, name: str = "tiny", **facts: Any) -> None:
        self.models.append(ModelRoute(name, facts.pop("status", "serving"), 1_700_000_000, **facts))
        self.publish()

    def publish(self) -> None:
        self.fleet.set(self.models, self.routes)

    async def add_engine(self, *acts: Act, model: str = "tiny", **facts: Any) -> FakeEngine:
        engine = FakeEngine(*acts)
        await self.nursery.start(engine.serve)
        self.engines.append(engine)
        self.add_route(engine.port, model, **facts)
        return engine

    def add_route(self, port: int, model: str = "tiny", **facts: Any) -> None:
        values = {"engine": "llamacpp", "served_name": model, **facts}
        self.routes.append(
            ReplicaRoute(
                f"{model}-{len(self.routes)}",
                model,
                "cpu",
                host="127.0.0.1",
                port=port,
                api_key=ENGINE_KEY,
                metrics_path="/metrics",
                **values,
            )
        )
        self.publish()

    async def settle(self) -> None:
        """Wait until the gateway has seen everything published."""
        while self.gateway.feed.snapshot.models != self.fleet.models() or (
            self.gateway.feed.snapshot.replicas != self.fleet.replicas()
        ):
            await self.gateway.feed.changed()

    async def row(self, count: int = 1) -> UsageRow:
        """Wait for the rows of `count` requests; return the newest."""
        while len(self.usage.rows) < count:
            await trio.sleep(0.01)
        assert len(self.usage.rows) == count
        return self.usage.rows[-1]

    def headers(self, **more: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}", "content-type": "application/json", **more}

    async def post(self, body: Any, path: str = "/v1/chat/completions", **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.post(path, content=content, headers=self.headers(**headers))

    async def chat(self, model: str = "tiny", stream: bool = False, **more: Any) -> httpx.Response:
        return await self.post({"model": model, "messages": MESSAGES, "stream": stream, **more})

    def streaming(self, model: str = "tiny") -> Any:
        """Open a streamed chat whose answer is read piece by piece; leaving the block is leaving as a client."""
        body = {"model": model, "messages": MESSAGES, "stream": True}
        return self.client.stream("POST", "/v1/chat/completions", json=body, headers=self.headers())


MESSAGES = [{"role": "user", "content": "Say hello."}]


@asynccontextmanager
async def rig(**settings: Any) -> AsyncIterator[Rig]:
    """Open a rig. Keyword arguments are gateway settings."""
    built = Rig(msgspec.structs.replace(GatewaySettings(), scrape_interval_s=0.2, **settings))
    control = LocalControl(built.fleet, built.keys, built.usage, lambda: built.settings)
    async with EnginePool() as pool, trio.open_nursery() as nursery:
        built.nursery = nursery
        built.gateway = Gateway(control, pool, built.metrics, built.log)
        await nursery.start(built.gateway.run)
        listeners = await open_listeners("127.0.0.1:0")
        built.port = listeners[0].socket.getsockname()[1]
        server = Http1Server(built.gateway.handle, ListenerLimits(), built.gateway.on_fault)
        await nursery.start(server.serve, listeners)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{built.port}", timeout=20) as client:
            built.client = client
            yield built
        nursery.cancel_scope.cancel()


def played(script, **settings: Any) -> None:
    """Run a script against a rig, for at most 20 s."""

    async def main() -> None:
        with trio.fail_after(20):
            async with rig(**settings) as built:
                await script(built)

    trio.run(main)


def events(text: str) -> list[str]:
    """Return the data of a stream's events."""
    return [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]


def words(text: str) -> str:
    """Return the text a chat stream carries."""
    chunks = [json.loads(event) for event in events(text) if event != "[DONE]"]
    return "".join(
        choice["delta"].get("content") or "" for chunk in chunks for choice in chunk.get("choices", ())
    )
