"""Striking secrets out of what an audit event records (C-57)."""

import re
from collections.abc import Mapping
from typing import Any

from llmgw.store.dialect import storable

STRUCK = "***"
_LONGEST = 2048
_NAMES = ("password", "secret", "token", "key_material", "private_key", "api_key", "dsn", "authorization")
_NOT_SECRET = ("prompt_tokens", "completion_tokens", "max_tokens", "context_tokens")
_SHAPES = re.compile(
    r"llmgw_[0-9A-Za-z]{40,}"
    r"|-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)"
    r"|[A-Za-z][A-Za-z0-9+.\-]*://[^\s/@]+@\S*",
    re.DOTALL,
)


def struck(value: Any, name: str = "") -> Any:
    """Return `value` without secrets: by the field's name, and by shape (API keys, PEM, URLs with userinfo)."""
    lower = name.lower().replace("-", "_")
    if lower not in _NOT_SECRET and any(word in lower for word in _NAMES):
        return STRUCK
    if isinstance(value, Mapping):
        return {str(key): struck(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [struck(inner, name) for inner in value]
    if isinstance(value, (bytes, bytearray)):
        return STRUCK
    return struck_text(value) if isinstance(value, str) else value


def struck_text(text: str) -> str:
    """Return one text with everything shaped like a secret struck out, cut at 2 KiB."""
    clean = _SHAPES.sub(STRUCK, storable(text))
    return clean if len(clean) <= _LONGEST else clean[: _LONGEST - 1] + "…"
