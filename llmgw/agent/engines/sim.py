"""The simulated engine (E-88): our own `sim-engine` role, started like any other engine, for rehearsals and tests.

It runs as the engine user like the others, who may not be able to reach the interpreter this agent runs on (one below
a home directory, say). Then one of the system's own runs it: of the same minor version in a checkout, whose compiled
libraries are for that one, and of any that the one-file executable carries otherwise. Whether that works is seen by
the probe, which starts this very program as that user; when the program itself or the place it is unpacked in is out
of reach, the agent's log has the reason and no `sim` is offered.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from llmgw.agent.engines.adapter import CannotStart, Command, FirstToken, engine_environment, profile_fault
from llmgw.agent.shard_spec import ShardSpec
from llmgw.own_command import own_archive, own_command, own_variables
from llmgw.policy.engine_rules import TRAITS
from llmgw.wire.agent import GPU, EngineProfile

_CARRIED_MINORS = (13, 12, 11)
_SYSTEM_FOLDERS = (Path("/usr/local/bin"), Path("/usr/bin"))
_VERSION_WORD = "llmgw "


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
        if os.geteuid() != 0 or _is_open_to_all(Path(sys.executable)):
            return sys.executable
        return next((str(path) for path in _system_interpreters() if path.exists()), sys.executable)

    def version_command(self) -> list[str] | None:
        """The whole program is started: what it says proves that the engine user can run it."""
        program = self.program()
        if program is None:
            return None
        variables = [f"{name}={value}" for name, value in own_variables().items()]
        return ["/usr/bin/env", *variables, *own_command("--version", python=program)]

    def version_in(self, output: str) -> str | None:
        """Return the version of `llmgw VERSION`."""
        line = output.strip()
        return line.removeprefix(_VERSION_WORD) if line.startswith(_VERSION_WORD) else None

    def device_command(self) -> list[str] | None:
        """It has no devices."""
        return None

    def devices_in(self, output: str) -> list[str]:
        """It has no devices."""
        return []

    def commands(self, spec: ShardSpec, engine_dir: str) -> list[Command]:
        """Return the command of one rank."""
        program = self.program()
        if program is None:
            raise CannotStart("the simulated engine is not offered here; set engines.sim.enabled")
        host = f"[{spec.listen_host}]" if ":" in spec.listen_host else spec.listen_host
        name = spec.profile.served_model_name or spec.model
        args = ["--listen", f"{host}:{spec.http_port}", "--model", name]
        if spec.nnodes > 1:
            leader = f"[{spec.leader_addr}]" if ":" in spec.leader_addr else spec.leader_addr
            args += ["--rank", str(spec.rank), "--nnodes", str(spec.nnodes)]
            args += ["--leader", f"{leader}:{spec.leader_port}"]
        env = engine_environment(spec, engine_dir, TRAITS[self.name].key_variable, own_variables())
        _, *command = own_command("sim-engine", *args, *spec.profile.args, python=program)
        return [Command("sim-engine", program, command, env)]

    def first_token(self, spec: ShardSpec) -> FirstToken | None:
        """Asked nothing: its `--fail-after` counts requests, and `--hang` is to be met by clients."""
        return None


def _system_interpreters() -> Iterator[Path]:
    own = sys.version_info.minor
    for minor in sorted(_CARRIED_MINORS, key=lambda one: one != own) if own_archive() else (own,):
        yield from (folder / f"python3.{minor}" for folder in _SYSTEM_FOLDERS)


def _is_open_to_all(path: Path) -> bool:
    """Return whether every account may enter the folders above a file, and above what it links to."""
    return all(folder.stat().st_mode & 0o001 for folder in {*path.parents, *path.resolve().parents})
