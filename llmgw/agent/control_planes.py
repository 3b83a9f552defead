"""The control planes an agent knows: those of agent.yaml, then those the leader named, kept across restarts.

The file holds the leader's list as it was given, a JSON array of strings, and is written whole beside itself and
renamed (20 P-70, P-71). It is only ever an addition: whatever is wrong with it, the configured servers remain.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llmgw.agent.dial import Address, merged, normalise
from llmgw.config.refusal import Refused

FILE_NAME = "control-planes.json"


class ControlPlaneList:
    """The dial list of one agent. Reading and writing its small file is synchronous."""

    def __init__(self, servers: Sequence[str], has_tls: bool, state_dir: str) -> None:
        """Raises Refused for an entry of agent.yaml that cannot be dialled, and for an empty list."""
        if not servers:
            raise Refused(400, "agent.yaml names no servers; write at least one under `servers:`")
        self._configured = [normalise(entry, has_tls) for entry in servers]
        self._has_tls = has_tls
        self._path = Path(state_dir) / FILE_NAME
        self._named = _read(self._path)

    def addresses(self) -> list[Address]:
        """Return the list to dial, in order; never empty."""
        return merged(self._configured, self._named, self._has_tls)

    def learn(self, servers: Sequence[str]) -> bool:
        """Take the leader's list; return whether the dial list changed. Raises OSError when it cannot be kept."""
        before = self.addresses()
        self._named = list(servers)
        if self.addresses() == before:
            return False
        _write(self._path, self._named)
        return True


def _read(path: Path) -> list[str]:
    try:
        found: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(found, list):
        return []
    return [entry for entry in found if isinstance(entry, str)]


def _write(path: Path, servers: list[str]) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(servers), encoding="utf-8")
    beside.chmod(0o644)
    os.replace(beside, path)
