"""The admin token: made at first start, kept in a file only its owner reads, compared in constant time (C-03).

Guessing is bounded too: ten wrong tokens in a minute from one address, and that address is answered 429 whatever it
sends until the minute is over. With 256 bits to guess this protects the log more than the token.
"""

import hashlib
import hmac
import os
import re
import secrets
import stat
from collections import deque
from pathlib import Path

from llmgw.config.refusal import Refused

_SHAPE = re.compile(r"[0-9A-Za-z._~+/=-]{16,512}\Z", re.ASCII)
_READABLE_BY_OTHERS = stat.S_IRGRP | stat.S_IROTH | stat.S_IWGRP | stat.S_IWOTH
WRONG_PER_MINUTE = 10
_WINDOW_S = 60.0
_MOST_ADDRESSES = 4096


def load_or_make(path: str | Path) -> str:
    """Return the token in `path`; make a new one (64 hex characters, mode 0600) when there is no file.

    Raises Refused for a file that others may read (0440 on a read-only file system is a mounted secret and allowed),
    is empty or no token, or cannot be read or made.
    """
    where = Path(path)
    try:
        return _load(where)
    except FileNotFoundError:
        return _make(where)
    except PermissionError:
        raise Refused(403, f"the admin token {where} may not be read by this user; run it with sudo") from None
    except OSError as error:
        raise Refused(400, f"the admin token {where} cannot be read: {error.strerror}") from None


def _load(where: Path) -> str:
    with open(where, encoding="ascii", errors="replace") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & _READABLE_BY_OTHERS and not (mode == 0o440 and _is_read_only(file.fileno())):
            raise Refused(
                400, f"the admin token {where} can be read or changed by others (mode {mode:04o}); chmod 600 it"
            )
        text = file.read(4096).strip()
    if _SHAPE.match(text) is None:
        raise Refused(400, f"the admin token {where} holds no token; remove the file and a new one is made at start")
    return text


def _is_read_only(descriptor: int) -> bool:
    return bool(os.fstatvfs(descriptor).f_flag & os.ST_RDONLY)


def _make(where: Path) -> str:
    """Write a new token to a temporary file and link it into place, so that two starts agree on one (V-9)."""
    token = secrets.token_hex(32)
    temporary = where.with_name(f".{where.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "w", encoding="ascii") as file:
                file.write(token + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, where)
        finally:
            os.unlink(temporary)
    except FileExistsError:
        return _load(where)
    except OSError as error:
        raise Refused(400, f"the admin token {where} cannot be made: {error.strerror}") from None
    return token


class TokenCheck:
    """Compares what a request carries with the token; knows the hash only."""

    def __init__(self, token: str) -> None:
        self._digest = _digest(token)

    def is_right(self, authorization: str | None) -> bool:
        """Return whether an `Authorization` value carries the token. Takes the same time wherever they differ."""
        scheme, _, given = (authorization or "").partition(" ")
        matches = hmac.compare_digest(_digest(given.strip()), self._digest)
        return matches and scheme.lower() == "bearer"


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


class Throttle:
    """Counts wrong tokens by address over the last minute. Times are the caller's monotonic seconds."""

    def __init__(self) -> None:
        self._wrong: dict[str, deque[float]] = {}

    def wait_s(self, address: str, now_s: float) -> float:
        """Return for how long that address is answered 429, 0 when it is not."""
        wrong = self._wrong.get(address)
        if wrong is None or len(wrong) < WRONG_PER_MINUTE:
            return 0.0
        return max(0.0, wrong[0] + _WINDOW_S - now_s)

    def wrong(self, address: str, now_s: float) -> None:
        """Note one wrong token. The table is bounded; the address longest unheard of is forgotten (X-38)."""
        times = self._wrong.pop(address, None) or deque(maxlen=WRONG_PER_MINUTE)
        times.append(now_s)
        self._wrong[address] = times
        while len(self._wrong) > _MOST_ADDRESSES:
            del self._wrong[next(iter(self._wrong))]
