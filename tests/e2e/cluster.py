"""A cluster on one machine: a server and agents of their own addresses (127.0.0.2, 127.0.0.3, ...), mutual TLS between."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmgw.ops.up.ports import engine_ports
from tests.e2e.rig import OWN, Program, environment, free_port, llmgw, until


@dataclass
class Agent:
    """One node."""

    node_id: str
    config: Path
    program: Program

    def kill(self) -> None:
        """kill -9 the agent; its engines live on."""
        self.program.send(signal.SIGKILL)
        self.program.process.wait(10)

    def start(self) -> None:
        """Start it anew."""
        old = self.program
        self.program = Program(["agent", "--config", str(self.config)], old.env, old.command).start()


@dataclass
class Cluster:
    """Server, agents, one API key."""

    folder: Path
    engine: Path
    models: Sequence[dict[str, Any]] = ()
    nodes: Sequence[str] = ("n1",)
    agent_settings: dict[str, Any] = field(default_factory=dict)
    server_settings: dict[str, Any] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)
    key: str = ""
    command: Sequence[str] = OWN
    env: dict[str, str] = field(default_factory=environment)

    def run(self, *arguments: str, check: bool = True, **more: str) -> "subprocess.CompletedProcess[str]":
        """Run one command to its end, with variables `more`."""
        return llmgw(*arguments, check=check, env=self.env | more, command=self.command)

    def start(self) -> "Cluster":
        """Write configurations and certificates, then start everything."""
        self.client_port, self.agent_port, self.admin_port = free_port(), free_port(), free_port()
        self.run("ctl", "cert", "init-ca", "--dir", str(self.folder / "ca"))
        self.run("ctl", "cert", "issue-server", "cp", "--host", "127.0.0.1", "--dir", str(self.folder / "ca"),
                 "--out", str(self.folder / "pki"))  # fmt: skip
        (self.folder / "store").mkdir(mode=0o700, exist_ok=True)
        self.server_config = self._write("server.yaml", self._server())
        self.server = Program(["server", "--config", str(self.server_config)], self.env, self.command).start()
        until("the server answers", self._answers)
        made = self.run("keys", "create", "--name", "test", "--store", self.store, "--json")
        self.key = json.loads(made.stdout)["key"]
        for number, node in enumerate(self.nodes, 2):
            self.agents[node] = self._start_agent(node, number)
        return self

    def lone_agent(self, node: str) -> Program:
        """Start one agent whose server is away; return it running."""
        self.agent_port = free_port()
        self.run("ctl", "cert", "init-ca", "--dir", str(self.folder / "ca"))
        return self._start_agent(node, 2).program

    def _start_agent(self, node: str, number: int) -> Agent:
        self.run("ctl", "cert", "issue-agent", node, "--dir", str(self.folder / "ca"),
                 "--out", str(self.folder / "pki"))  # fmt: skip
        config = self._write(f"{node}.yaml", self._agent(node, number))
        return Agent(node, config, Program(["agent", "--config", str(config)], self.env, self.command).start())

    def _answers(self) -> bool:
        assert self.server.process.poll() is None, self.server.text
        return self.ctl("version", check=False).returncode == 0

    @property
    def store(self) -> str:
        """The store's path."""
        return str(self.folder / "store" / "llmgw.db")

    @property
    def url(self) -> str:
        """Base URL of the client API."""
        return f"http://127.0.0.1:{self.client_port}/v1"

    def _server(self) -> dict[str, Any]:
        pki = self.folder / "pki"
        return {
            "name": "cp",
            "listen": f"127.0.0.1:{self.client_port}",
            "agent_listen": f"127.0.0.1:{self.agent_port}",
            "admin_listen": f"127.0.0.1:{self.admin_port}",
            "metrics_listen": "127.0.0.1:0",
            "agent_tls": {"ca": f"{pki}/ca.pem", "cert": f"{pki}/server.pem", "key": f"{pki}/server-key.pem"},
            "endpoints": [f"https://127.0.0.1:{self.agent_port}"],
            "auth": {"store": self.store},
            "control": {"port_range": engine_ports(None)},
            "models": list(self.models),
        } | self.server_settings

    def _agent(self, node: str, number: int) -> dict[str, Any]:
        pki, state = self.folder / "pki", self.folder / node
        state.mkdir(mode=0o755, exist_ok=True)
        return {
            "node_id": node,
            "servers": [f"https://127.0.0.1:{self.agent_port}"],
            "tls": {"ca": f"{pki}/ca.pem", "cert": f"{pki}/agent-{node}.pem", "key": f"{pki}/agent-{node}-key.pem"},
            "mgmt_addr": f"127.0.0.{number}",
            "heartbeat_interval": "1s",
            "engines_dir": str(self.folder / "engines"),
            "weights_dir": str(state / "weights"),
            "state_dir": str(state),
            "engines": {"llamacpp": {"bin": str(self.engine), "threads": 1}, "sim": {"enabled": True}},
            "supervisor": {"stop_grace": "5s", "user": "nobody"},
        } | self.agent_settings

    def _write(self, name: str, value: dict[str, Any]) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(value))
        return path

    def ctl(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[str]":
        """Run `llmgw ctl ...` against this server."""
        token = self.folder / "store" / "admin-token"
        shown = token.read_text().strip() if token.exists() else ""
        server = f"http://127.0.0.1:{self.admin_port}"
        return self.run("ctl", "--server", server, *arguments, check=check, LLMGW_ADMIN_TOKEN=shown)

    def ctl_json(self, *arguments: str) -> Any:
        """Run `llmgw ctl ... --json` and decode its answer."""
        return json.loads(self.ctl(*arguments, "--json").stdout)

    def ready_replicas(self, model: str) -> list[dict[str, Any]]:
        """Return the ready replicas of a model."""
        return [r for r in self.ctl_json("replicas", "--model", model) if r["state"] == "ready"]

    def wait_ready(self, model: str, count: int = 1, limit_s: float = 90.0) -> list[dict[str, Any]]:
        """Wait for exactly `count` ready replicas."""

        def enough() -> list[dict[str, Any]] | None:
            found = self.ready_replicas(model)
            return found if len(found) == count else None

        try:
            return until(f"{count} ready replicas of {model}", enough, limit_s)
        except AssertionError as error:
            texts = [f"--- {n}\n" + "\n".join(a.program.lines[-40:]) for n, a in self.agents.items()]
            server = "\n".join(self.server.lines[-40:])
            raise AssertionError("\n".join([str(error), self.ctl("explain-placement", model, check=False).stdout,
                                            "--- server", server, *texts])) from None  # fmt: skip

    def engine_pid(self, replica: str) -> int:
        """Return the process id of a replica's engine, from what its agent saved."""
        for node in self.nodes:
            for path in (self.folder / node / "shards").glob(f"{replica}-*.json"):
                return int(json.loads(path.read_text())["pid"])
        raise AssertionError(f"no saved shard of {replica}")

    def end(self) -> None:
        """Stop agents and server, then whatever engine is left."""
        for agent in self.agents.values():
            if agent.program.process.poll() is None:
                agent.program.end(signal.SIGTERM)
        if self.server.process.poll() is None:
            self.server.end(signal.SIGTERM)
        for pid in saved_pids(self.folder):
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)


def saved_pids(folder: Path) -> list[int]:
    """Return the engines' process ids that agents below `folder` have saved."""
    found = []
    for path in folder.glob("*/shards/*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            found.append(int(json.loads(path.read_text())["pid"]))
    return found


@contextlib.contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    """Start a cluster and end it whatever happens."""
    try:
        yield cluster.start()
    finally:
        cluster.end()


def tiny_model(path: Path, name: str = "tiny", replicas: int = 1, **more: Any) -> dict[str, Any]:
    """Return the definition of a tiny CPU model."""
    profile = {"name": "cpu", "engine": "llamacpp", "cpu_cores": 1, "min_memory_gb": 0.2,
               "args": ["--ctx-size", "8192", "--threads", "1"]}  # fmt: skip
    scaling = {"min": replicas, "max": replicas}
    return {"name": name, "source": str(path), "profiles": [profile], "scaling": scaling} | more
