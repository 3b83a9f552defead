"""The unprivileged account engines run as (E-120, X-11).

An engine parses what strangers send it, so it is never root. Only an agent that is not root itself runs engines as
itself, since it could not do otherwise.
"""

import grp
import os
import pwd
from dataclasses import dataclass

from llmgw.config.refusal import Refused

_DEVICE_GROUPS = ("video", "render")


@dataclass(frozen=True)
class EngineUser:
    """An account: ids, and the supplementary groups that reach GPU device files."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]


def engine_user(setting: str) -> EngineUser | None:
    """Resolve `supervisor.user` (a name or a number); None when the agent is not root. Raises Refused."""
    if os.geteuid() != 0:
        return None
    entry = _entry(setting)
    if entry.pw_uid == 0:
        raise Refused(400, f"supervisor.user is {setting!r}, which is root; engines never run as root, name another user")
    return EngineUser(entry.pw_name, entry.pw_uid, entry.pw_gid, _device_groups())


def _entry(setting: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(int(setting)) if setting.isdigit() else pwd.getpwnam(setting)
    except KeyError:
        raise Refused(
            400,
            f"supervisor.user names {setting!r}, and there is no such user here; make it with "
            f"`useradd --system --no-create-home --shell /usr/sbin/nologin {setting}` or name another one",
        ) from None


def _device_groups() -> tuple[int, ...]:
    found: list[int] = []
    for name in _DEVICE_GROUPS:
        try:
            found.append(grp.getgrnam(name).gr_gid)
        except KeyError:
            continue
    return tuple(found)
