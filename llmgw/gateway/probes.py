"""`/health`, `/ready`, `/leader`: for balancers, without a key and without a query (S-35)."""

import msgspec

from llmgw.gateway.feed import Feed
from llmgw.gateway.replicas import ReplicaTable
from llmgw.gateway.routes import Kind
from llmgw.net.http_message import Responder


async def probe(
    kind: Kind, responder: Responder, request_id: str, feed: Feed, replicas: ReplicaTable
) -> None:
    """Answer 200 where the fact holds, else 503; the body says it in a word."""
    is_so, word = state(kind, feed, replicas)
    headers = [
        ("x-request-id", request_id),
        ("content-type", "application/json"),
        ("cache-control", "no-store"),
    ]
    await responder.respond(200 if is_so else 503, headers, msgspec.json.encode({"status": word}))


def state(kind: Kind, feed: Feed, replicas: ReplicaTable) -> tuple[bool, str]:
    """Return whether a probe's fact holds, and the word for it."""
    if kind is Kind.HEALTH:
        return True, "ok"
    if kind is Kind.READY:
        return (True, "ready") if replicas.any_can_answer() else (False, "no model has a ready replica")
    return (True, "leader") if feed.snapshot.leading else (False, "standby")
