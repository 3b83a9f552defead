"""Which engines can be used here: their programs are asked for their version (E-170), one at a time, 30 s each.

A control plane places on what a probe found, so until the first one is complete nothing is claimed (P-21).
"""

import subprocess
from collections.abc import Mapping, Sequence

import anyio

from llmgw.agent.engine_user import EngineUser
from llmgw.agent.engines.adapter import CannotStart, EngineAdapter
from llmgw.agent.engines.registry import EngineRegistry
from llmgw.obs import log

PROBE_EVERY_S = 300.0
_PROGRAM_S = 30.0
_OUTPUT_CHARS = 65_536


class EngineProbe:
    """Keeps the versions found. `complete` is set after the first round."""

    def __init__(self, registry: EngineRegistry, cwd: str, user: EngineUser | None) -> None:
        self.complete = anyio.Event()
        self._registry = registry
        self._cwd = cwd
        self._user = user
        self._versions: dict[str, str] = {}

    def versions(self) -> Mapping[str, str]:
        """Return engine -> version of those that can be used now."""
        return dict(self._versions)

    async def run(self) -> None:
        """Probe now and every 5 minutes, until cancelled."""
        while True:
            await self.probe()
            await anyio.sleep(PROBE_EVERY_S)

    async def probe(self) -> None:
        """Ask every engine once, those named by the operator first."""
        adapters = sorted(self._registry.adapters().values(), key=lambda one: not one.configured())
        for adapter in adapters:
            version = await self._version(adapter)
            if version:
                self._versions[adapter.name] = version
            else:
                self._versions.pop(adapter.name, None)
        self.complete.set()

    async def _version(self, adapter: EngineAdapter) -> str | None:
        command = adapter.version_command()
        if command is None:
            return None
        try:
            status, output = await run_program(command, self._cwd, self._user)
        except CannotStart as fault:
            log.get("agent.engines").warning("engine cannot be used", engine=adapter.name, reason=fault.sentence)
            return None
        version = adapter.version_in(output) if status == 0 else None
        if version is None:
            last = output.strip().splitlines()[-1:] or [""]
            log.get("agent.engines").warning(
                "engine cannot be used", engine=adapter.name, reason=f"{command[0]} exits {status}: {last[0][:300]}"
            )
        return version

    async def devices(self, adapter: EngineAdapter) -> list[str]:
        """Return the devices an engine sees (E-50). Raises CannotStart with its output when asking failed."""
        command = adapter.device_command()
        if command is None:
            return []
        status, output = await run_program(command, self._cwd, self._user)
        if status != 0:
            raise CannotStart(f"{' '.join(command)} exits {status}: {output.strip()[-1000:]}")
        return adapter.devices_in(output)


async def run_program(command: Sequence[str], cwd: str, user: EngineUser | None) -> tuple[int, str]:
    """Run a program as the engine user with a bare environment; return its status and output. Raises CannotStart."""
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": cwd, "TMPDIR": cwd, "LANG": "C.UTF-8"}
    try:
        with anyio.fail_after(_PROGRAM_S):
            done = await anyio.run_process(
                command,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.STDOUT,
                check=False,
                cwd=cwd,
                env=env,
                start_new_session=True,
                user=user.uid if user else None,
                group=user.gid if user else None,
                extra_groups=list(user.groups) if user else None,
            )
    except TimeoutError:
        raise CannotStart(f"{command[0]} did not end within {_PROGRAM_S:g} s") from None
    except OSError as error:
        raise CannotStart(f"{command[0]} cannot be started: {error.strerror or error}") from None
    return done.returncode, done.stdout.decode("utf-8", "replace")[:_OUTPUT_CHARS]
