"""Running the real command line against the real admin API."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def llmgw(
    *arguments: str, env: dict[str, str] | None = None, stdin: str | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run `llmgw ...` in an environment of its own: no server to be found but the one named in `env`."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("LLMGW_", "XDG_", "SUDO_"))}
    return subprocess.run(
        [sys.executable, "-m", "llmgw", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60,
        env={**clean, "HOME": "/nonexistent", "XDG_DATA_HOME": "/nonexistent", "TERM": "dumb", **(env or {})},
        **({"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}),
    )  # fmt: skip
