"""The API key that `up` shows: made once with the same command an operator would use, kept for later starts."""

import http.client
import json
import os
import subprocess

from llmgw.config.refusal import Refused
from llmgw.ops.up.layout import Layout
from llmgw.ops.up.ports import HOST
from llmgw.own_command import own_command, own_environment


def usable_key(layout: Layout, client_port: int) -> str:
    """Return the kept key if the server still takes it, else a new one. Raises Refused."""
    kept = layout.secrets / "api-key"
    try:
        key = kept.read_text("ascii", errors="replace").strip()
    except OSError:
        key = ""
    if key and key.isascii() and key.isprintable() and _is_taken(key, client_port):
        return key
    key = _made(layout)
    fresh = kept.with_name("api-key.new")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(key + "\n")
    fresh.rename(kept)
    return key


def _is_taken(key: str, client_port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, client_port, timeout=10)
    try:
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _made(layout: Layout) -> str:
    command = own_command("keys", "create", "--name", "up", "--store", str(layout.store), "--json")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=own_environment())
    if done.returncode:
        raise Refused(500, f"no API key could be made: {done.stderr.strip().splitlines()[-1:] or ['no reason given']}")
    return str(json.loads(done.stdout)["key"])
