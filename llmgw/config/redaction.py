"""Striking secrets out of what is written down: log lines and audit records (C-57, M-653).

Two ways of knowing a secret: the name of the field that holds it, and the shape of the text itself. Both err on the
side of striking out, since a log keeps what it was given for years and nobody reads it with care.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

STRUCK = "***"
"""What stands where a secret was."""

_NAME = re.compile(
    r"passw|secret|token(?!s)|dsn|authorization|credential|cookie|(?:^|[_.-])key(?:[_.-](?:pem|material|data|b64))?$"
    r"|apikey|privatekey",
    re.IGNORECASE,
)
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_KEY = re.compile(r"llmgw_[0-9A-Za-z]{20,}|\b(?:sk|hf|ghp|glpat)[-_][0-9A-Za-z_-]{16,}", re.ASCII)
_USERINFO = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^\s/@?#:]*:[^\s@?#]*|[^\s/@?#]+)@")
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[^\s,;\"']+", re.IGNORECASE)
_FLAG = re.compile(r"--?([A-Za-z][\w.-]*)(=?)")


@functools.lru_cache(maxsize=1024)
def names_a_secret(name: str) -> bool:
    """Return whether a field of that name holds a secret: password, secret, token, key material, dsn, ..."""
    return _NAME.search(name) is not None


def redact_text(text: str) -> str:
    """Return `text` without API keys (T-10), PEM blocks, bearer values and the userinfo of URLs."""
    if "-----BEGIN" in text:
        text = _PEM.sub(STRUCK, text)
    if "://" in text:
        text = _USERINFO.sub(_without_userinfo, text)
    text = _KEY.sub(STRUCK, text)
    return _BEARER.sub(_without_value, text)


def _without_userinfo(found: re.Match[str]) -> str:
    return f"{found[1]}{STRUCK}@"


def _without_value(found: re.Match[str]) -> str:
    """A function where a template would do: `re` takes a template apart again at every call, for every log line."""
    return f"{found[1]} {STRUCK}"


def redact(value: Any, name: str = "") -> Any:
    """Return plain data (as JSON decodes it) with secrets struck out at any depth. `name` is the field holding it."""
    if names_a_secret(name) and value is not None and not isinstance(value, bool):
        return STRUCK
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return STRUCK
    if isinstance(value, Mapping):
        pairs = cast(Mapping[Any, Any], value).items()
        return {redact_text(str(key)): redact(item, str(key)) for key, item in pairs}
    if isinstance(value, Sequence):
        return _redact_list(cast(Sequence[Any], value))
    return value


def _redact_list(items: Sequence[Any]) -> list[Any]:
    """Strike out values of command-line options too: `--api-key=x` and `--api-key`, `x`."""
    out: list[Any] = []
    next_is_secret = False
    for item in items:
        if next_is_secret and isinstance(item, str) and not item.startswith("--"):
            out.append(STRUCK)
            next_is_secret = False
            continue
        flag = _FLAG.match(item) if isinstance(item, str) else None
        is_secret = flag is not None and names_a_secret(flag[1].replace("-", "_"))
        next_is_secret = is_secret and flag is not None and not flag[2]
        out.append(f"{flag[0]}{STRUCK}" if is_secret and flag is not None and flag[2] else redact(item))
    return out
