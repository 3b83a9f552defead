"""As whom `up` runs engines when it is root itself: never as root (21 E-120).

An installer makes the account `llmgw-engine`. `up` needs no installation, so without that account it uses `nobody`,
which every Debian has, and makes no account of its own.
"""

import os
import pwd
import subprocess
from pathlib import Path

from llmgw.config.refusal import Refused

INSTALLED_ACCOUNT, FALLBACK_ACCOUNT = "llmgw-engine", "nobody"


def engine_account() -> str | None:
    """Return the account engines run as, or None when this process is not root and they run as itself."""
    if os.geteuid() != 0:
        return None
    try:
        pwd.getpwnam(INSTALLED_ACCOUNT)
    except KeyError:
        return FALLBACK_ACCOUNT
    return INSTALLED_ACCOUNT


def require_readable(path: Path, account: str | None, what: str) -> None:
    """Refuse a file that engines could not read, before anything is started with it. `what` names it."""
    user = None if account is None else pwd.getpwnam(account).pw_uid
    group = None if account is None else pwd.getpwnam(account).pw_gid
    done = subprocess.run(
        ["/usr/bin/test", "-r", str(path)], user=user, group=group, extra_groups=None if user is None else [], check=False
    )
    if done.returncode:
        who = account or "this account"
        raise Refused(
            400, f"{what} {path} cannot be read by {who}, which runs the engine; move it to a folder open to it"
        )
