"""Where `llmgw ctl` finds the server and its token, and who it says is asking."""

import getpass
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmgw.cli.failure import Failure

DEFAULT_ADDRESS = "http://127.0.0.1:9090"
SYSTEM_TOKEN = Path("/var/lib/llmgw/admin-token")


@dataclass(frozen=True)
class Place:
    """A server's admin address and the file of its token."""

    admin: str
    token_file: Path


def find_server(server: str | None, data: str | None) -> Place:
    """Return where to ask: --server, LLMGW_ADMIN_URL, up.json of `llmgw up`, else the service on this machine.

    A server named by address uses the token file of the `up` that has that address, else the service's.
    """
    named = server or os.environ.get("LLMGW_ADMIN_URL")
    ups = [place for place in (_read_up(folder / "up.json") for folder in up_folders(data)) if place is not None]
    if named:
        address = named if "://" in named else f"http://{named}"
        return next((up for up in ups if up.admin == address.rstrip("/")), Place(address, SYSTEM_TOKEN))
    if data and not ups:
        raise Failure(f"{Path(data) / 'up.json'} is not there; is `llmgw up --data {data}` running?")
    return ups[0] if ups else Place(DEFAULT_ADDRESS, SYSTEM_TOKEN)


def find_token(place: Place) -> str:
    """Return LLMGW_ADMIN_TOKEN, else what the file holds. Raises Failure saying what to do (C-88)."""
    given = os.environ.get("LLMGW_ADMIN_TOKEN")
    if given:
        return _fit(given.strip(), "LLMGW_ADMIN_TOKEN")
    try:
        text = place.token_file.read_text("ascii", errors="replace").strip()
    except PermissionError:
        raise Failure(f"the admin token {place.token_file} may not be read by you; run it with sudo") from None
    except OSError:
        raise Failure(
            f"there is no admin token at {place.token_file}; start the server, or set LLMGW_ADMIN_TOKEN"
        ) from None
    return _fit(text, str(place.token_file))


def actor() -> str:
    """Return who ran this: SUDO_USER, else the user; characters that do not fit are replaced (C-08)."""
    try:
        name = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return re.sub(r"[^A-Za-z0-9._@-]", "-", name)[:64] or "unknown"


def _fit(token: str, where: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token or not token:
        raise Failure(f"{where} holds no admin token")
    return token


def up_folders(data: str | None) -> list[Path]:
    """Return data folders `llmgw up` may have used, likeliest first. The same rule as `ops.up.layout`."""
    if data:
        return [Path(data).expanduser()]
    chosen = os.environ.get("XDG_DATA_HOME", "")
    if chosen.startswith("/"):
        return [Path(chosen) / "llmgw"]
    system, own = Path("/var/lib/llmgw-up"), Path.home() / ".local/share/llmgw"
    return [system, own] if os.geteuid() == 0 else [own, system]


def _read_up(path: Path) -> Place | None:
    try:
        found: Any = json.loads(path.read_text("utf-8"))
        return Place(str(found["admin"]).rstrip("/"), Path(found["token_file"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
