"""C-01 on the running program: an admin address that is not loopback is refused at start, unless it is allowed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from llmgw.config.server import ServerConfig

ROOT = Path(__file__).resolve().parents[2]


def start(folder: Path, **changed: object) -> subprocess.Popen[str]:
    config = {
        "listen": "127.0.0.1:0", "agent_listen": "127.0.0.1:0", "metrics_listen": "127.0.0.1:0",
        "agent_insecure": True, "auth": {"store": str(folder / "llmgw.db")}, **changed,
    }  # fmt: skip
    (folder / "server.yaml").write_text(json.dumps(config))
    return subprocess.Popen(
        [sys.executable, "-m", "llmgw", "server", "--config", str(folder / "server.yaml")], cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip


@pytest.mark.covers("C-01")
def test_an_address_that_is_not_loopback_ends_the_start_and_starts_when_allowed(tmp_path: Path):
    refused = start(tmp_path, admin_listen="0.0.0.0:0")
    out, _ = refused.communicate(timeout=60)
    assert refused.returncode == 1
    assert "admin_remote: true" in out
    assert len(out.strip().splitlines()) == 1
    allowed = start(tmp_path, admin_listen="0.0.0.0:0", admin_remote=True)
    assert allowed.stdout is not None
    try:
        assert any("serving" in line for line in allowed.stdout)
    finally:
        allowed.send_signal(signal.SIGTERM)
        allowed.communicate(timeout=60)
    assert allowed.returncode == 0
    assert (tmp_path / "admin-token").stat().st_mode & 0o777 == 0o600
    assert ServerConfig().admin_listen == "127.0.0.1:9090"
