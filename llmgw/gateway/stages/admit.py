"""Step 11: hold a request until a replica of its model can take it.

A model that is coming is worth waiting for: the wait is what tells the leader to start one that is on demand. A model
that is parked, stopped or has no room will not come by waiting, so its reason is told at once.
"""

import math

import anyio

from llmgw.gateway.demand import Demand
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.feed import Feed
from llmgw.gateway.names import Names, Target
from llmgw.gateway.refusals import Refusal, model_loading, model_not_served, overloaded
from llmgw.gateway.replicas import ReplicaTable

WILL_NOT_COME = {
    "parked": "failed to start too often and is parked until an operator retries it",
    "waiting for room": "is waiting for room on a machine",
    "stopped": "is stopped",
}
RETRY_WHEN_STUCK_S = 30
LONGEST_RETRY_S = 60


async def admit(exchange: Exchange, feed: Feed, replicas: ReplicaTable, demand: Demand) -> Refusal | None:
    """Return once a replica of the model can take the request, or refuse. The wait becomes `queue_s`."""
    assert exchange.target is not None
    model = exchange.target.model.name
    demand.arrived(model)
    if replicas.can_answer(model):
        return None
    began = exchange.clock()
    refusal: Refusal | None = None
    try:
        with demand.waits(model), anyio.move_on_after(exchange.settings.load_wait_s) as wait:
            refusal = await _wait(exchange, feed, replicas)
    finally:
        exchange.queue_s += exchange.clock() - began
    return _still_loading(exchange, feed.names) if wait.cancelled_caught else refusal


async def _wait(exchange: Exchange, feed: Feed, replicas: ReplicaTable) -> Refusal | None:
    while True:
        target = feed.names.target(exchange.asked)
        if target is None:
            return model_not_served(exchange.asked, [])
        exchange.target = target
        if replicas.can_answer(target.model.name):
            return None
        if refusal := _hopeless(exchange.asked, target):
            return refusal
        await feed.changed()


def _hopeless(asked: str, target: Target) -> Refusal | None:
    words = WILL_NOT_COME.get(target.model.status)
    if words is None:
        return None
    reason = f": {target.model.reason.rstrip('.')}" if target.model.reason else ""
    return model_loading(f"The model '{asked}' {words}{reason}.", RETRY_WHEN_STUCK_S)


def _still_loading(exchange: Exchange, names: Names) -> Refusal:
    waited = round(exchange.settings.load_wait_s)
    target = names.target(exchange.asked)
    retry_s = min(LONGEST_RETRY_S, max(1, math.ceil(exchange.settings.load_wait_s / 10)))
    if target is not None and target.model.status in ("serving", "short"):
        return overloaded(f"No replica of '{exchange.asked}' took the request within {waited} s.", retry_s)
    return model_loading(f"The model '{exchange.asked}' is still loading after {waited} s.", retry_s)
