"""The engines of this node by name (E-2)."""

from collections.abc import Mapping

from llmgw.agent.engines.adapter import CannotStart, EngineAdapter
from llmgw.agent.engines.llamacpp import Llamacpp
from llmgw.agent.engines.sim import Sim
from llmgw.config.agent import EngineSettings
from llmgw.policy.engine_rules import unknown_engine


class EngineRegistry:
    """Adapters of the engines this release drives, less those disabled here (E-158)."""

    def __init__(self, settings: EngineSettings) -> None:
        driven: tuple[EngineAdapter, ...] = (Llamacpp(settings.llamacpp), Sim(settings.sim.enabled))
        self._disabled = frozenset(settings.disabled)
        self._adapters = {adapter.name: adapter for adapter in driven}

    def adapters(self) -> Mapping[str, EngineAdapter]:
        """Return the engines that may be offered, by name."""
        return {name: adapter for name, adapter in self._adapters.items() if name not in self._disabled}

    def adapter(self, name: str) -> EngineAdapter:
        """Return one adapter. Raises CannotStart saying which engines there are."""
        unknown = unknown_engine(name)
        if unknown:
            raise CannotStart(unknown)
        if name in self._disabled:
            raise CannotStart(f"engine {name} is disabled on this node (engines.disabled)")
        if name not in self._adapters:
            driven = ", ".join(sorted(self.adapters()))
            raise CannotStart(f"engine {name} is not driven by this release of the agent, which drives {driven}")
        return self._adapters[name]
