"""The simulated engine (E-88): our own `sim-engine` role, started like any other engine, for rehearsals and tests.

It runs as the engine user like the others, who may not be able to reach the interpreter this agent runs on (one below
a home directory, say). Then the system's own interpreter of the same minor version runs it, with our packages.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import llmgw
from llmgw.agent.engines.adapter import CannotStart, Command, FirstToken, engine_environment, profile_fault
from llmgw.agent.shard_spec import ShardSpec
from llmgw.policy.engine_rules import TRAITS
from llmgw.wire.agent import GPU, EngineProfile

_BOOTSTRAP = (
    "import runpy, sys; sys.path[:0] = sys.argv.pop(1).split(':'); "
    "runpy.run_module('llmgw.testing.sim_engine', run_name='__main__', alter_sys=True)"
)
_SYSTEM_PYTHON = f"/usr/bin/python3.{sys.version_info.minor}"


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
        """The interpreter that runs this agent, or the system's where the engine user cannot reach that one."""
        if not self._enabled:
            return None
        reachable = os.geteuid() != 0 or _is_open_to_all(Path(sys.executable).resolve())
        return sys.executable if reachable or not Path(_SYSTEM_PYTHON).exists() else _SYSTEM_PYTHON

    def version_command(self) -> list[str] | None:
        """Nothing has to be run: the version is the agent's own."""
        program = self.program()
        return [program, "-I", "-c", f"print({llmgw.__version__!r})"] if program else None

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
        program = self.program()
        if program is None:
            raise CannotStart("the simulated engine is not offered here; set engines.sim.enabled")
        host = f"[{spec.listen_host}]" if ":" in spec.listen_host else spec.listen_host
        name = spec.profile.served_model_name or spec.model
        args = ["-I", "-c", _BOOTSTRAP, ":".join(_package_folders())]
        args += ["--listen", f"{host}:{spec.http_port}", "--model", name]
        if spec.nnodes > 1:
            leader = f"[{spec.leader_addr}]" if ":" in spec.leader_addr else spec.leader_addr
            args += ["--rank", str(spec.rank), "--nnodes", str(spec.nnodes)]
            args += ["--leader", f"{leader}:{spec.leader_port}"]
        env = engine_environment(spec, engine_dir, TRAITS[self.name].key_variable)
        return [Command("sim-engine", program, [*args, *spec.profile.args], env)]

    def first_token(self, spec: ShardSpec) -> FirstToken | None:
        """Asked nothing: its `--fail-after` counts requests, and `--hang` is to be met by clients."""
        return None


def _package_folders() -> list[str]:
    """Return where this program and the packages it uses lie."""
    own = str(Path(llmgw.__file__).parent.parent)
    return [own, *(folder for folder in sys.path if folder.endswith("site-packages") and folder != own)]


def _is_open_to_all(path: Path) -> bool:
    """Return whether every account may enter the folders above a file."""
    return all(folder.stat().st_mode & 0o001 for folder in path.parents)
