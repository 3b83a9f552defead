"""Steps 4 and 5: which model a name stands for, and whether this caller may use it (S-5, S-14, S-23)."""

from llmgw.gateway.exchange import Exchange
from llmgw.gateway.names import GUARD_ROLE, Names, Target, is_allowed
from llmgw.gateway.refusals import Refusal, model_not_allowed, model_not_served, no_such_model, unsupported
from llmgw.wire.canonical import Operation

EMBEDDINGS = "embeddings"


def resolve(exchange: Exchange, names: Names) -> Refusal | None:
    """Find the model, refuse a guard, a model this key may not use, and one that cannot do what is asked."""
    target = names.target(exchange.asked)
    if target is None:
        return model_not_served(exchange.asked, names_for(exchange, names))
    if target.model.role == GUARD_ROLE:
        return no_such_model(exchange.asked)
    if not is_allowed(exchange.principal, target):
        return model_not_allowed(exchange.asked)
    exchange.target = target
    return _fits(exchange, target)


def names_for(exchange: Exchange, names: Names) -> list[str]:
    """Return the names this caller may use."""
    return [target.name for target in names.listed(exchange.principal)]


def _fits(exchange: Exchange, target: Target) -> Refusal | None:
    serves_embeddings = EMBEDDINGS in target.model.capabilities
    if exchange.endpoint.operation is Operation.EMBEDDINGS:
        if not serves_embeddings:
            return unsupported(
                f"The model '{exchange.asked}' does not serve embeddings; use a model that does."
            )
    elif serves_embeddings:
        return unsupported(f"The model '{exchange.asked}' serves embeddings only; send it to /v1/embeddings.")
    return None
