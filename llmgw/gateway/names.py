"""What the `model` of a request may be: a catalog name, an alias, or an adapter (S-5).

Built once per snapshot, since it is asked per request. A canonical name wins over an alias, an alias over an adapter;
the catalog refuses clashes, so the order only matters while a change is on its way.
"""

from collections.abc import Iterable, Sequence

import msgspec

from llmgw.ports import ModelRoute, Principal

PLACEHOLDER = "<model-name>"
"""What documentation writes where a name belongs; answered with the names there are instead of an error."""

GUARD_ROLE = "guard"


class Target(msgspec.Struct, frozen=True):
    """What a name stands for. `name` is the canonical name: the model's, or the adapter's. `adapter` is its index."""

    name: str
    model: ModelRoute
    adapter: int | None = None

    @property
    def is_guard(self) -> bool:
        """Whether this model judges requests and answers none (S-5)."""
        return self.model.role == GUARD_ROLE


class Names:
    """Every name clients may use, of one snapshot."""

    def __init__(self, models: Sequence[ModelRoute]) -> None:
        self._models = tuple(models)
        self._targets: dict[str, Target] = {}
        for model in models:
            for index, adapter in enumerate(model.adapters):
                self._targets[adapter] = Target(adapter, model, index)
        for model in models:
            for alias in model.aliases:
                self._targets[alias] = Target(model.name, model)
        for model in models:
            self._targets[model.name] = Target(model.name, model)

    def target(self, name: str) -> Target | None:
        """Return what a name stands for, None when nothing has it."""
        return self._targets.get(name)

    def listed(self, principal: Principal | None) -> list[Target]:
        """Return what a caller may use, in catalog order, each model followed by its adapters; guards never."""
        return [target for target in self._all() if not target.is_guard and is_allowed(principal, target)]

    def _all(self) -> Iterable[Target]:
        for model in self._models:
            yield Target(model.name, model)
            for index, adapter in enumerate(model.adapters):
                yield Target(adapter, model, index)


def is_allowed(principal: Principal | None, target: Target) -> bool:
    """Return whether a caller may use a model: a name and its aliases are one, an adapter is a name of its own."""
    if principal is None or principal.models is None:
        return True
    if target.name in principal.models:
        return True
    return target.adapter is None and any(alias in principal.models for alias in target.model.aliases)
