"""Where `llmgw up` keeps things: one folder, so that removing it removes everything.

Secrets and the store are readable by their owner only. The rest is readable by everyone, since engines run as an
unprivileged account when `up` itself runs as root. For the same reason root's default is not below root's home, which
no other account may enter.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from llmgw.config.refusal import Refused


def default_data_dir() -> Path:
    """Return `$XDG_DATA_HOME/llmgw`; without that variable `/var/lib/llmgw-up` for root, else `~/.local/share/llmgw`."""
    chosen = os.environ.get("XDG_DATA_HOME", "")
    if chosen.startswith("/"):
        return Path(chosen) / "llmgw"
    return Path("/var/lib/llmgw-up") if os.geteuid() == 0 else Path.home() / ".local/share/llmgw"


@dataclass(frozen=True)
class Layout:
    """The paths below one data folder."""

    root: Path

    @property
    def secrets(self) -> Path:
        """Certificates, their keys, the admin token and the API key that `up` shows."""
        return self.root / "secrets"

    @property
    def store(self) -> Path:
        """The SQLite file."""
        return self.root / "store" / "llmgw.db"

    @property
    def engines(self) -> Path:
        """Installed engines, `llamacpp/VERSION/`."""
        return self.root / "engines"

    @property
    def models(self) -> Path:
        """Model files made out of packages."""
        return self.root / "models"

    @property
    def agent_state(self) -> Path:
        """The agent's own folder: saved shards, engine logs, weights."""
        return self.root / "agent"

    @property
    def logs(self) -> Path:
        """What server and agent print."""
        return self.root / "logs"

    @property
    def server_yaml(self) -> Path:
        """The server's configuration, written anew at every start."""
        return self.root / "server.yaml"

    @property
    def agent_yaml(self) -> Path:
        """The agent's configuration, written anew at every start."""
        return self.root / "agent.yaml"

    @property
    def address_file(self) -> Path:
        """up.json: where `llmgw ctl` and `llmgw keys` find the running server."""
        return self.root / "up.json"

    def make(self) -> None:
        """Create the folders. Raises Refused naming the one that cannot be made."""
        try:
            for path, mode in (
                (self.root, 0o755),
                (self.secrets, 0o700),
                (self.store.parent, 0o700),
                (self.engines, 0o755),
                (self.models, 0o755),
                (self.agent_state, 0o755),
                (self.logs, 0o700),
            ):
                path.mkdir(parents=True, exist_ok=True)
                path.chmod(mode)
        except OSError as error:
            raise Refused(
                400, f"{error.filename} cannot be made: {error.strerror}; give another folder with --data"
            ) from None


@contextmanager
def only_one(layout: Layout) -> Iterator[None]:
    """Hold the data folder for this process. Raises Refused while another `up` holds it.

    The lock is the kernel's, so it ends with its process however that ends.
    """
    with open(layout.root / "up.lock", "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise Refused(
                409, f"llmgw up already runs on {layout.root} (process {holder}); stop it, or give another --data"
            ) from None
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield
