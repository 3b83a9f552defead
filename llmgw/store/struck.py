"""What an audit event records of a change: without secrets (C-57), storable, each text at most 2 KiB."""

from collections.abc import Mapping
from typing import Any

from llmgw.config.redaction import STRUCK, redact, redact_text
from llmgw.store.dialect import storable

__all__ = ["STRUCK", "struck", "struck_text"]

_LONGEST = 2048


def struck(value: Any, name: str = "") -> Any:
    """Return plain data with secrets struck out by the field's name and by shape. `name` is the field holding it."""
    return _kept(redact(value, name))


def struck_text(text: str) -> str:
    """Return one text with everything shaped like a secret struck out, cut at 2 KiB."""
    return _cut(redact_text(text))


def _kept(value: Any) -> Any:
    if isinstance(value, str):
        return _cut(value)
    if isinstance(value, Mapping):
        return {_cut(str(key)): _kept(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_kept(inner) for inner in value]
    return value


def _cut(text: str) -> str:
    clean = storable(text)
    return clean if len(clean) <= _LONGEST else clean[: _LONGEST - 1] + "…"
