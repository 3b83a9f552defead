"""The serving path alone, in front of one engine, for `build.py bench`.

    python -m llmgw.testing.bench_gateway key STORE
    python -m llmgw.testing.bench_gateway serve STORE PORT ENGINE_PORT

What a request meets is the server's own: listener, keys from an SQLite store, choice of a replica, scrape, usage rows
written to the store, metrics. What is left out is what no request waits for: the leader (its routes are fixed: models
`mock` and `mock-paced`, two replicas each, all at the engine's port), the agents' links and the admin API.
"""

import sys
from functools import partial

import anyio
from anyio.abc import TaskStatus

from llmgw.control.port import LocalControl
from llmgw.gateway.pipeline import Gateway
from llmgw.net.engine_pool import EnginePool
from llmgw.net.http1_server import Http1Server
from llmgw.net.interpreter import tune_for_serving
from llmgw.net.limits import ListenerLimits
from llmgw.net.listeners import open_listeners
from llmgw.obs import log
from llmgw.obs.access import AccessLog
from llmgw.obs.metrics import Metrics
from llmgw.people import keys
from llmgw.people.lookup import StoreKeyLookup
from llmgw.ports import GatewaySettings, ModelRoute, ReplicaRoute
from llmgw.store.loop import Store
from llmgw.store.recorder import UsageRecorder
from llmgw.testing.memory_fleet import MemoryFleet

MODELS = ("mock", "mock-paced")
REPLICAS = 2


def bench_fleet(engine_port: int) -> MemoryFleet:
    """Return the fixed routes: each model on two replicas, all the engine at `engine_port`."""
    fleet = MemoryFleet()
    fleet.set(
        [ModelRoute(model, "serving", 1_700_000_000) for model in MODELS],
        [
            ReplicaRoute(
                f"{model}-{number}", model, "cpu", "llamacpp", "127.0.0.1", engine_port, "", model, "/metrics"
            )
            for model in MODELS
            for number in range(REPLICAS)
        ],
    )
    return fleet


async def make_key(store_url: str) -> str:
    """Make the store and a key in it; return the key's text."""
    async with Store(store_url) as store:
        minted = await store.run(keys.create, keys.KeyAsk(name="bench"), keys.Actor("bench", "bench"))
        return minted.text


async def serve(
    store_url: str, port: int, engine_port: int, *, task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Serve on loopback until cancelled; started with the port, which 0 leaves to the system."""
    settings = GatewaySettings()
    async with Store(store_url) as store, EnginePool() as pool, anyio.create_task_group() as group:
        lookup, recorder = StoreKeyLookup(store), UsageRecorder(store)
        await group.start(lookup.run)
        await group.start(recorder.run)
        control = LocalControl(bench_fleet(engine_port), lookup, recorder, lambda: settings)
        gateway = Gateway(control, pool, Metrics(), log.get("gateway"), access=AccessLog("gateway"))
        await group.start(gateway.run)
        server = Http1Server(gateway.handle, ListenerLimits(trusted=("127.0.0.1",)), gateway.on_fault)
        listeners = await open_listeners(f"127.0.0.1:{port}")
        await group.start(partial(server.serve, listeners))
        task_status.started(listeners[0].socket.getsockname()[1])
        await anyio.sleep_forever()


def main(arguments: list[str]) -> None:
    """Run one of the two commands."""
    log.configure()
    tune_for_serving()
    if arguments[0] == "key":
        print(anyio.run(make_key, arguments[1], backend="trio"))
    else:
        anyio.run(serve, arguments[1], int(arguments[2]), int(arguments[3]), backend="trio")


if __name__ == "__main__":
    main(sys.argv[1:])
