"""The simulated engine (E-88): our own `sim-engine` role, started like any other engine, for rehearsals and tests."""

import sys
from collections.abc import Sequence
from pathlib import Path

import llmgw
from llmgw.agent.engines.adapter import Command, FirstToken, engine_environment, profile_fault
from llmgw.agent.shard_spec import ShardSpec
from llmgw.policy.engine_rules import TRAITS
from llmgw.wire.agent import GPU, EngineProfile

_BOOTSTRAP = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module('llmgw.testing.sim_engine', run_name='__main__', alter_sys=True)"
)


class Sim:
    """Builds sim-engine's commands."""

    name = "sim"
    health_path = TRAITS["sim"].health_path
    metrics_path = TRAITS["sim"].metrics_path
    falls_back_to_cpu = False

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled

    def serves_http(self, spec: ShardSpec) -> bool:
        """Only the leader of a replica serves."""
        return spec.is_leader

    def validate(self, profile: EngineProfile, gpus: Sequence[GPU]) -> str | None:
        """Return why this profile cannot run, or None."""
        return profile_fault(profile, gpus)

    def use_installed(self, path: str) -> None:
        """Ours comes with the agent; there is nothing to install."""

    def configured(self) -> bool:
        """Return whether `engines.sim.enabled` is set."""
        return self._enabled

    def program(self) -> str | None:
        """The interpreter that runs this agent."""
        return sys.executable if self._enabled else None

    def version_command(self) -> list[str] | None:
        """Nothing has to be run: the version is the agent's own."""
        return [sys.executable, "-I", "-c", f"print({llmgw.__version__!r})"] if self._enabled else None

    def version_in(self, output: str) -> str | None:
        """Return the line as it is."""
        return output.strip() or None

    def device_command(self) -> list[str] | None:
        """It has no devices."""
        return None

    def devices_in(self, output: str) -> list[str]:
        """It has no devices."""
        return []

    def commands(self, spec: ShardSpec, engine_dir: str) -> list[Command]:
        """Return the command of one rank; the bootstrap finds this very program whatever the working directory."""
        host = f"[{spec.listen_host}]" if ":" in spec.listen_host else spec.listen_host
        name = spec.profile.served_model_name or spec.model
        args = ["-I", "-c", _BOOTSTRAP, str(Path(llmgw.__file__).parent.parent)]
        args += ["--listen", f"{host}:{spec.http_port}", "--model", name]
        if spec.nnodes > 1:
            leader = f"[{spec.leader_addr}]" if ":" in spec.leader_addr else spec.leader_addr
            args += ["--rank", str(spec.rank), "--nnodes", str(spec.nnodes)]
            args += ["--leader", f"{leader}:{spec.leader_port}"]
        env = engine_environment(spec, engine_dir, TRAITS[self.name].key_variable)
        return [Command("sim-engine", sys.executable, [*args, *spec.profile.args], env)]

    def first_token(self, spec: ShardSpec) -> FirstToken | None:
        """Asked nothing: its `--fail-after` counts requests, and `--hang` is to be met by clients."""
        return None
