"""Reads the Prometheus text exposition format, version 0.0.4, as engines write it at their metrics path (S-42).

Only what a router needs: names, labels and values. HELP, TYPE and timestamps are passed over, and so is a line that is
not a sample: one line an engine got wrong must not hide its other figures.
"""

import re

import msgspec

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)[ \t]*(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*$")
_LABEL = re.compile(r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", '"': '"', "\\": "\\"}


class Sample(msgspec.Struct, frozen=True):
    """One line: its labels and its value, which may be nan or infinite."""

    labels: dict[str, str]
    value: float


def parse(text: bytes) -> dict[str, list[Sample]]:
    """Return the samples of an exposition by metric name, in order."""
    families: dict[str, list[Sample]] = {}
    for line in text.decode("utf-8", "replace").split("\n"):
        if not line or line.startswith("#"):
            continue
        match = _SAMPLE.match(line.rstrip("\r"))
        if match is None:
            continue
        name, labels, value = match.groups()
        number = _number(value)
        if number is not None:
            families.setdefault(name, []).append(Sample(_labels(labels or ""), number))
    return families


def total(families: dict[str, list[Sample]], name: str) -> float | None:
    """Return the sum of a metric's samples; None without such a series: unknown is not 0 (E section 11)."""
    samples = families.get(name)
    if not samples:
        return None
    return sum(sample.value for sample in samples)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _labels(text: str) -> dict[str, str]:
    return {
        match[1]: _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[0]), match[2])
        for match in _LABEL.finditer(text)
    }
