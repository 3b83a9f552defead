"""The catalog in memory: declared models, models of the store, and the scaling set at run time over both."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from llmgw.config.duration import parse_duration_s
from llmgw.config.model import ModelDefinition, Scaling, decode_model, definition_data
from llmgw.config.refusal import Refused
from llmgw.control.keeper import Kept
from llmgw.policy.catalog import check, check_all

SCALING_KEYS = ("min", "max", "idle_timeout")


class Catalog:
    """Definitions by name, as they are in force.

    Declared models are checked together when the catalog is made: a server does not start on a definition that is
    wrong. A stored one that no longer passes (its name was declared since, or a rule was added) is left out and named
    in `problems`; it stays in the store.
    """

    def __init__(self, declared: Iterable[Any], now_unix: float) -> None:
        decoded = [decode_model(raw, f"models[{place}]") for place, raw in enumerate(declared)]
        self._declared = {d.name: d for d in check_all(decoded)}
        self._stored: dict[str, ModelDefinition] = {}
        self._scalings: dict[str, dict[str, Any]] = {}
        self._added_unix = dict.fromkeys(self._declared, now_unix)
        self.problems: list[str] = []

    def load(self, kept: Kept) -> None:
        """Take in what the store holds, forgetting what was there."""
        self._stored, self.problems = {}, []
        waiting = list(kept.models)
        decoded: dict[str, ModelDefinition] = {}
        for row in waiting:
            try:
                decoded[row.name] = decode_model(row.definition)
            except Refused as refusal:
                self.problems.append(refusal.sentence)
        for row in waiting:
            if row.name not in decoded:
                continue
            others = {**{n: d for n, d in decoded.items() if n != row.name}, **self._declared}
            try:
                self._stored[row.name] = check(decoded[row.name], others)
                self._added_unix[row.name] = row.at_unix
            except Refused as refusal:
                self.problems.append(refusal.sentence)
        self._scalings = {n: dict(s) for n, s in kept.scalings.items()}

    def __iter__(self) -> Iterator[ModelDefinition]:
        return iter([self[name] for name in sorted({*self._declared, *self._stored})])

    def __contains__(self, name: str) -> bool:
        return name in self._declared or name in self._stored

    def __getitem__(self, name: str) -> ModelDefinition:
        """Return the definition in force. Raises Refused(404)."""
        definition = self._declared.get(name) or self._stored.get(name)
        if definition is None:
            raise Refused(404, f"there is no model {name[:80]!r}; `llmgw ctl models` lists those there are")
        scaling = self._scalings.get(name)
        return replace(definition, scaling=scaled(definition.scaling, scaling)) if scaling else definition

    def is_declared(self, name: str) -> bool:
        """Return whether a model comes from the settings."""
        return name in self._declared

    def added_unix(self, name: str) -> float:
        """Return when a model was added; for a declared one, when this server started."""
        return self._added_unix.get(name, 0.0)

    def checked(self, raw: Any) -> tuple[ModelDefinition, dict[str, Any]]:
        """Validate a new definition; return it, and as plain data with defaults filled. Raises Refused 400, 409, 501."""
        definition = decode_model(raw)
        if definition.name in self:
            raise Refused(409, f"there is a model {definition.name!r} already; remove it first or choose another name")
        definition = check(definition, {d.name: d for d in self})
        return definition, definition_data(definition)

    def add(self, definition: ModelDefinition, at_unix: float) -> None:
        """Take in a stored model that `checked` passed."""
        self._stored[definition.name] = definition
        self._added_unix[definition.name] = at_unix

    def remove(self, name: str) -> None:
        """Forget a stored model and its scaling."""
        self._stored.pop(name, None)
        self._scalings.pop(name, None)

    def checked_scaling(self, name: str, change: Mapping[str, Any]) -> dict[str, Any]:
        """Return the scaling keys that override `name`'s definition after `change`. Raises Refused 400, 404."""
        definition = self[name]
        unknown = sorted(set(change) - set(SCALING_KEYS))
        if unknown or not change:
            raise Refused(400, f"scale takes {', '.join(SCALING_KEYS)}" + (f", not {unknown[0]!r}" if unknown else ""))
        clean: dict[str, Any] = dict(self._scalings.get(name, {}))
        for key, value in change.items():
            if key == "idle_timeout":
                clean[key] = parse_duration_s(value, "idle_timeout")
            elif isinstance(value, bool) or not isinstance(value, int):
                raise Refused(400, f"{key} is a whole number")
            else:
                clean[key] = value
        check(replace(definition, scaling=scaled(definition.scaling, clean)), {d.name: d for d in self if d.name != name})
        return clean

    def set_scaling(self, name: str, scaling: dict[str, Any]) -> None:
        """Take in what `checked_scaling` returned."""
        self._scalings[name] = scaling

    def named_as_fallback(self, name: str) -> list[str]:
        """Return the models that name this one as a fallback."""
        return [d.name for d in self if name in d.fallbacks]


def scaled(scaling: Scaling, change: Mapping[str, Any]) -> Scaling:
    """Return the scaling with the changed keys."""
    return replace(scaling, **{k: v for k, v in change.items() if k in SCALING_KEYS})
