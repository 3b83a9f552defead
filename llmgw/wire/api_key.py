"""The shape of an API key (T-10): `llmgw_`, 40 random characters, 6 characters of checksum.

The checksum lets a gateway refuse a mistyped key without asking the store, and lets a log redactor recognise a key in
any text. It is CRC-32 of everything before it, in base 62 with the digits 0-9A-Za-z, most significant first.
"""

import hashlib
import re
import zlib

PREFIX = "llmgw_"
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
RANDOM_LENGTH = 40
CHECKSUM_LENGTH = 6
_PAIRS = tuple(high + low for high in ALPHABET for low in ALPHABET)
"""Two digits at a time: this is computed for every request."""
_SHAPE = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{RANDOM_LENGTH + CHECKSUM_LENGTH}}}", re.ASCII)


def checksum(body: str) -> str:
    """Return the 6 characters that follow `body` (prefix and random part)."""
    value = zlib.crc32(body.encode("ascii"))
    pairs = len(_PAIRS)
    return _PAIRS[value // (pairs * pairs)] + _PAIRS[value // pairs % pairs] + _PAIRS[value % pairs]


def is_whole(text: str) -> bool:
    """Return whether `text` is a complete key with the right checksum. Says nothing of whether anyone has it."""
    if _SHAPE.fullmatch(text) is None:
        return False
    return checksum(text[:-CHECKSUM_LENGTH]) == text[-CHECKSUM_LENGTH:]


def digest(text: str) -> str:
    """Return the SHA-256 of a key as lower-case hex: all that is ever kept of it (T-11)."""
    return hashlib.sha256(text.encode()).hexdigest()
