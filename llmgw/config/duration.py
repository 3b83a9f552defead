"""Durations as operators write them (C-10): "30m", "1h30m", "200ms", or whole seconds."""

import re
from typing import Annotated, Any

import msgspec

from llmgw.config.refusal import Refused

_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+\Z")
_LONGEST_S = 315_360_000
"""Ten years. A larger integer is almost certainly nanoseconds, so it is refused rather than believed."""


Seconds = Annotated[float, msgspec.Meta(extra={"unit": "duration"})]
"""A field that holds seconds and is written in configuration as C-10 says."""


def parse_duration_s(value: Any, what: str = "duration") -> float:
    """Return `value` in seconds. `what` names the field in the refusal. Raises Refused(400)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise Refused(400, f'{what} is not a duration; write it like "30m" or as whole seconds')
    if isinstance(value, str):
        text = value.strip()
        if not _WHOLE.match(text):
            raise Refused(400, f'{what} {value!r} is not a duration; write it like "30m", "1h30m" or "200ms"')
        return sum(float(number) * _UNIT_S[unit] for number, unit in _PART.findall(text))
    if value < 0:
        raise Refused(400, f"{what} is negative; a duration is zero or more")
    if value > _LONGEST_S:
        raise Refused(400, f'{what} {value} is more than ten years; the unit is seconds, or write it like "30m"')
    return float(value)


def render_duration(seconds: float) -> str:
    """Return the shortest exact spelling: 5400 -> "1h30m", 0.2 -> "200ms", 0 -> "0s"."""
    whole_ms = round(seconds * 1000)
    if whole_ms == 0:
        return "0s"
    out = ""
    for unit, size_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, whole_ms = divmod(whole_ms, size_ms)
        out += f"{count}{unit}" if count else ""
    return out
