"""`GET /v1/models` and `/v1/models/ID`: what this caller may use, and whether it could answer now (S-24)."""

from llmgw.gateway.exchange import Exchange
from llmgw.gateway.names import Names, Target, is_allowed
from llmgw.gateway.refusals import Refusal, no_such_model
from llmgw.gateway.replicas import ReplicaTable
from llmgw.wire.openai_models import Capabilities, ModelEntry, model_object, models_list


async def answer_models(exchange: Exchange, names: Names, replicas: ReplicaTable) -> None:
    """Answer the list."""
    entries = [entry(target, replicas) for target in names.listed(exchange.principal)]
    await _answer(exchange, models_list(entries))


async def answer_model(
    exchange: Exchange, wanted: str, names: Names, replicas: ReplicaTable
) -> Refusal | None:
    """Answer one model, by any of its names; 404 alike for one that is not there and one this key may not use."""
    target = names.target(wanted)
    if target is None or target.is_guard or not is_allowed(exchange.principal, target):
        return no_such_model(wanted[:200])
    await _answer(exchange, model_object(entry(target, replicas)))
    return None


def entry(target: Target, replicas: ReplicaTable) -> ModelEntry:
    """Return the entry of one model or adapter."""
    model = target.model
    return ModelEntry(
        id=target.name,
        created=model.created_unix,
        ready=replicas.can_answer(model.name),
        capabilities=Capabilities(
            tools="tools" in model.capabilities,
            vision="vision" in model.capabilities,
            embeddings="embeddings" in model.capabilities,
        ),
        context_length=model.context_length,
        parent=model.name if target.adapter is not None else "",
    )


async def _answer(exchange: Exchange, body: bytes) -> None:
    headers = [*exchange.answer_headers(), ("content-type", "application/json")]
    await exchange.responder.respond(200, headers, body)
