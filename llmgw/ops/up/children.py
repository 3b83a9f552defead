"""The two roles as child processes: started, watched, and ended in the order that leaves nothing running.

Each child is in a session of its own, so that Ctrl-C in the terminal reaches only `up`, which then ends the agent
first: it stops its engines and leaves, then the server does. A child also holds the read end of a pipe whose write end
only `up` has. When `up` dies, however it dies, the children see the pipe close and leave at once - without stopping
the engines, so that the next `up` takes them over.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from llmgw.config.refusal import Refused
from llmgw.ops.up.layout import Layout
from llmgw.own_command import own_command, own_environment

AGENT_STOP_LIMIT_S = 40.0
SERVER_STOP_LIMIT_S = 40.0
_LOG_LIMIT_BYTES = 16 * 1024 * 1024


@dataclass
class Child:
    """One running role."""

    role: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def require_running(self) -> None:
        """Refuse with its last words once it has ended."""
        if self.process.poll() is not None:
            left = "; engines it ran are left running, and the next llmgw up takes them over" if self.role == "agent" else ""
            said = f"{last_line(self.log)} ({self.log})"
            raise Refused(500, f"the {self.role} ended with status {self.process.returncode}: {said}{left}")


@dataclass
class Children:
    """Server and agent of one `up`. Ends both when left, whatever the reason."""

    layout: Layout
    running: list[Child] = field(default_factory=list)

    def __enter__(self) -> "Children":
        self._read_fd, self._write_fd = os.pipe()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for child in reversed(self.running):
                _end(child, AGENT_STOP_LIMIT_S if child.role == "agent" else SERVER_STOP_LIMIT_S)
        finally:
            os.close(self._read_fd)
            os.close(self._write_fd)

    def start(self, role: str, config: Path, options: Sequence[str] = ()) -> Child:
        """Start `llmgw ROLE --config CONFIG`; its output goes to a file in the log folder."""
        log = self.layout.logs / f"{role}.log"
        if log.exists() and log.stat().st_size > _LOG_LIMIT_BYTES:
            log.rename(log.with_suffix(".old"))
        with open(log, "ab") as output:
            process = subprocess.Popen(
                own_command(role, "--config", str(config), "--parent-fd", str(self._read_fd), *options),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=[self._read_fd],
                env=own_environment(),
            )
        child = Child(role, process, log)
        self.running.append(child)
        return child

    def require_running(self) -> None:
        """Refuse with the last words of a child that has ended."""
        for child in self.running:
            child.require_running()


def _end(child: Child, limit_s: float) -> None:
    if child.process.poll() is not None:
        return
    child.process.send_signal(signal.SIGTERM)
    try:
        child.process.wait(limit_s)
    except subprocess.TimeoutExpired:
        child.process.kill()
        child.process.wait()


def last_line(log: Path) -> str:
    """Return the last line a child printed, cut to 300 characters."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1][:300] if lines else "it printed nothing"
