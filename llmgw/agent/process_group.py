"""One shard's processes: started in a session of their own, watched by pidfd, ended as a whole (E-120..E-122, E-134).

An engine is rarely one process: it forks workers, and those outlive it when only the first is killed, holding the GPU
for nobody (F-23). So a shard ends when every process of its group and session is gone, and whoever left both is found
by the marker in its environment.

`no_new_privs` is inherited over fork from the thread that forks. There is no argument of `subprocess` for it, and a
`preexec_fn` may deadlock in a program with threads, so each launch runs on a short thread that sets it for itself.
"""

import ctypes
import os
import signal
import subprocess
import threading
from contextlib import suppress
from dataclasses import dataclass

import anyio
from anyio import to_thread

from llmgw.agent.engine_user import EngineUser
from llmgw.agent.engines.adapter import CannotStart, Command
from llmgw.agent.proc import ProcessStat, environment_value, group_members, processes, read_stat

MARKER = "LLMGW_SHARD"
"""Variable that names a shard's processes: `<state dir>#<shard id>`."""

_PR_SET_NO_NEW_PRIVS = 38
_OOM_SCORE_ADJ = "500"
_UMASK = 0o027
_GONE_POLL_S = 0.05
_GONE_AFTER_KILL_S = 30.0


@dataclass(frozen=True)
class ProcessIdentity:
    """What names the first process of a shard for good: PID, start time, and the command name the kernel shows."""

    pid: int
    start_ticks: int
    command: str

    def is_running(self) -> bool:
        """Return whether that very process is still there (E-140)."""
        stat = read_stat(self.pid)
        return (
            stat is not None
            and stat.is_alive
            and stat.start_ticks == self.start_ticks
            and stat.name == self.command
        )


class EngineProcess:
    """A shard's process group. `exit_code` is the code, 128 + the signal, or -1 when it cannot be known (adopted)."""

    def __init__(self, identity: ProcessIdentity, marker: str, child: "subprocess.Popen[bytes] | None") -> None:
        self.identity = identity
        self.exited = anyio.Event()
        self.exit_code = -1
        self._marker = marker
        self._child = child

    @property
    def is_adopted(self) -> bool:
        """Return whether an earlier run of the agent started it."""
        return self._child is None

    async def watch(self) -> None:
        """Wait for the first process to exit, then set `exited`. One task runs this for each process."""
        pidfd = _open_pidfd(self.identity)
        if pidfd is not None:
            try:
                await anyio.wait_readable(pidfd)
            finally:
                os.close(pidfd)
        if self._child is not None:
            code = self._child.wait()
            self.exit_code = code if code >= 0 else 128 - code
        self.exited.set()

    def members(self) -> list[ProcessStat]:
        """Return its living processes."""
        return group_members(self.identity.pid, self.identity.start_ticks)

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, at most `grace_s` seconds, SIGKILL; returns when every process is gone. Not to be cancelled half-way.

        Raises TimeoutError when the kernel does not let go of one for 30 s after SIGKILL.
        """
        with anyio.CancelScope(shield=True):
            await self._signal_all(signal.SIGTERM)
            with anyio.move_on_after(grace_s):
                await self._gone()
            with anyio.fail_after(_GONE_AFTER_KILL_S):
                while await self._signal_all(signal.SIGKILL):
                    await anyio.sleep(_GONE_POLL_S)

    async def _gone(self) -> None:
        while await to_thread.run_sync(self._left):
            await anyio.sleep(_GONE_POLL_S)

    def _left(self) -> list[ProcessStat]:
        return self.members() or marked_processes(self._marker)

    async def _signal_all(self, number: signal.Signals) -> bool:
        """Signal every process of the shard; return whether there was one."""
        return await to_thread.run_sync(self._signal_members, number)

    def _signal_members(self, number: signal.Signals) -> bool:
        members = self.members()
        if any(member.group == self.identity.pid for member in members):
            with suppress(ProcessLookupError):
                os.killpg(self.identity.pid, number)
        others = [member for member in members if member.group != self.identity.pid]
        strays = [*others, *(stat for stat in marked_processes(self._marker) if stat not in members)]
        for stat in strays:
            with suppress(ProcessLookupError):
                os.kill(stat.pid, number)
        return bool(members or strays)


def marked_processes(marker: str, *, prefix: bool = False) -> list[ProcessStat]:
    """Return living processes whose environment carries a shard's marker (or one that begins with it)."""
    found: list[ProcessStat] = []
    for stat in processes():
        value = environment_value(stat.pid, MARKER) if stat.is_alive else None
        if value is not None and (value.startswith(marker) if prefix else value == marker):
            found.append(stat)
    return found


def _open_pidfd(identity: ProcessIdentity) -> int | None:
    """Return a pidfd of that very process, or None when it is gone."""
    try:
        pidfd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return None
    stat = read_stat(identity.pid)
    if stat is None or stat.start_ticks != identity.start_ticks:
        os.close(pidfd)
        return None
    return pidfd


async def launch(command: Command, cwd: str, output_fd: int, marker: str, user: EngineUser | None) -> EngineProcess:
    """Start a command in its own session with output to `output_fd`. Raises CannotStart in words."""
    env = {**command.env, MARKER: marker}
    child = await to_thread.run_sync(_launch_on_own_thread, command, cwd, output_fd, env, user)
    stat = read_stat(child.pid)
    if stat is None:
        child.wait()
        raise CannotStart(f"{command.path} was gone as soon as it was started")
    return EngineProcess(ProcessIdentity(child.pid, stat.start_ticks, stat.name), marker, child)


def _launch_on_own_thread(
    command: Command, cwd: str, output_fd: int, env: dict[str, str], user: EngineUser | None
) -> "subprocess.Popen[bytes]":
    started: list[subprocess.Popen[bytes]] = []
    failed: list[OSError] = []

    def start() -> None:
        try:
            _forbid_new_privileges()
            started.append(_popen(command, cwd, output_fd, env, user))
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=start, name="launch", daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise CannotStart(_why_not_started(command, failed[0], user))
    with suppress(OSError):
        with open(f"/proc/{started[0].pid}/oom_score_adj", "w", encoding="ascii") as file:
            file.write(_OOM_SCORE_ADJ)
    return started[0]


def _forbid_new_privileges() -> None:
    """Set no_new_privs on the calling thread: no setuid program it starts gains anything."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")


def _popen(
    command: Command, cwd: str, output_fd: int, env: dict[str, str], user: EngineUser | None
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [command.path, *command.args],
        stdin=subprocess.DEVNULL,
        stdout=output_fd,
        stderr=output_fd,
        cwd=cwd,
        env=env,
        umask=_UMASK,
        start_new_session=True,
        user=user.uid if user else None,
        group=user.gid if user else None,
        extra_groups=list(user.groups) if user else None,
    )


def _why_not_started(command: Command, error: OSError, user: EngineUser | None) -> str:
    what = f"{command.path} cannot be started"
    if isinstance(error, FileNotFoundError):
        return f"{what}: there is no such program"
    if isinstance(error, PermissionError):
        who = f"the user {user.name}" if user else "this user"
        return f"{what}: {who} may not run it (each directory above it must be open to that user)"
    return f"{what}: {error.strerror or error}"
