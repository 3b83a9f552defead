"""The files `llmgw up` starts its two roles with: both configurations, the certificates, up.json."""

import json
import os
from pathlib import Path
from typing import Any

from llmgw.ops.up.layout import Layout
from llmgw.ops.up.model import ModelChoice
from llmgw.ops.up.ports import HOST, Ports

NODE_ID = "local"
_MOST_CORES = 8


def write_configuration(layout: Layout, ports: Ports, engine: Path, model: ModelChoice, account: str | None) -> None:
    """Write server.yaml, agent.yaml and up.json, each whole or not at all."""
    _write(layout.server_yaml, _json(server_settings(layout, ports, model)))
    _write(layout.agent_yaml, _json(agent_settings(layout, ports, engine, account)))
    _write(layout.address_file, _json(addresses(layout, ports)))


def server_settings(layout: Layout, ports: Ports, model: ModelChoice) -> dict[str, Any]:
    """Return server.yaml as plain data (JSON is YAML)."""
    return {
        "name": "up",
        "listen": f"{HOST}:{ports.client}",
        "agent_listen": f"{HOST}:{ports.agent}",
        "admin_listen": f"{HOST}:{ports.admin}",
        "metrics_listen": f"{HOST}:{ports.metrics}",
        "admin_token_file": str(layout.secrets / "admin-token"),
        "agent_tls": _tls(layout, "server"),
        "endpoints": [f"https://{HOST}:{ports.agent}"],
        "auth": {"store": str(layout.store)},
        "control": {"port_range": ports.engines},
        "models": [model_definition(model)],
    }


def model_definition(model: ModelChoice) -> dict[str, Any]:
    """Return the declared model: one CPU profile with all but one of this machine's cores."""
    cores = max(1, min(_MOST_CORES, (os.cpu_count() or 2) - 1))
    profile = {
        "name": "cpu",
        "engine": "llamacpp",
        "cpu_cores": cores,
        "min_memory_gb": model.memory_gb,
        "args": ["--ctx-size", "8192", "--parallel", "2"],
    }
    return {"name": model.name, "description": model.description, "source": model.source, "profiles": [profile]}


def agent_settings(layout: Layout, ports: Ports, engine: Path, account: str | None) -> dict[str, Any]:
    """Return agent.yaml as plain data."""
    settings: dict[str, Any] = {
        "node_id": NODE_ID,
        "servers": [f"https://{HOST}:{ports.agent}"],
        "tls": _tls(layout, f"agent-{NODE_ID}"),
        "mgmt_addr": HOST,
        "heartbeat_interval": "2s",
        "engines_dir": str(layout.engines),
        "weights_dir": str(layout.agent_state / "weights"),
        "state_dir": str(layout.agent_state),
        "engines": {"llamacpp": {"bin": str(engine)}},
        "supervisor": {"stop_grace": "10s"},
    }
    if account is not None:
        settings["supervisor"]["user"] = account
    return settings


def addresses(layout: Layout, ports: Ports) -> dict[str, Any]:
    """Return what other commands need to find this server; it holds paths of secrets, no secrets."""
    return {
        "pid": os.getpid(),
        "url": f"http://{HOST}:{ports.client}/v1",
        "admin": f"http://{HOST}:{ports.admin}",
        "token_file": str(layout.secrets / "admin-token"),
        "store": str(layout.store),
    }


def kept_engine_ports(layout: Layout) -> str | None:
    """Return the engines' port range of the last start, None at the first."""
    try:
        return str(json.loads(layout.server_yaml.read_text())["control"]["port_range"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _tls(layout: Layout, side: str) -> dict[str, str]:
    """Name the files as `pki` writes them."""
    return {
        "ca": str(layout.secrets / "ca.pem"),
        "cert": str(layout.secrets / f"{side}.pem"),
        "key": str(layout.secrets / f"{side}-key.pem"),
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _write(path: Path, text: str) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.chmod(0o644)
    fresh.rename(path)
