"""Bounds a JSON text must keep before anything parses it: UTF-8, and nesting (S-10).

An engine's parser may recurse, so depth is a matter of its life, not of ours; and a relay that never decodes the text
it passes on would hand over bytes that are no text at all. Both checks take time linear in the text and memory bounded
by it: strings are cut out by one regular expression without backtracking, then only brackets are counted.
"""

import codecs
import itertools
import re

MAX_DEPTH = 128
_SLICE = 65_536
# A string that never ends runs to the end of the text, else each quote in it would be tried anew: quadratic.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
_STEP = [1 if code in b"[{" else -1 for code in range(256)]


def depth(text: bytes) -> int:
    """Return how deep arrays and objects nest in a JSON text; for a text that is not JSON, some bound of it."""
    brackets = _STRING.sub(b"", text).translate(None, _NOT_BRACKETS)
    return max(itertools.accumulate(map(_STEP.__getitem__, brackets)), default=0)


def is_too_deep(text: bytes, limit: int = MAX_DEPTH) -> bool:
    """Return whether the nesting is above the limit."""
    if text.count(b"[") + text.count(b"{") <= limit:
        return False
    return depth(text) > limit


def utf8_fault(text: bytes) -> int | None:
    """Return the offset of the first byte that is not UTF-8, or None. Decodes slice by slice, so 32 MiB stay 32 MiB."""
    if text.isascii():
        return None
    decoder = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(text), _SLICE):
        piece = text[start : start + _SLICE]
        held = len(decoder.getstate()[0])
        try:
            decoder.decode(piece, start + _SLICE >= len(text))
        except UnicodeDecodeError as error:
            return start - held + error.start
    return None
