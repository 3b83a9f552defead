"""Making the text of an API key (T-10). Its shape and checksum are llmgw.wire.api_key's, which never draws one."""

import secrets

from llmgw.wire.api_key import ALPHABET, PREFIX, RANDOM_LENGTH, checksum, digest, is_whole

__all__ = ["digest", "is_whole", "listed_prefix", "new_key"]

_LISTED_LENGTH = 12


def new_key() -> str:
    """Return a fresh key: 40 characters of the system's generator between the prefix and the checksum."""
    body = PREFIX + "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_LENGTH))
    return body + checksum(body)


def listed_prefix(key: str) -> str:
    """Return the first 12 characters, by which listings tell keys apart (T-11)."""
    return key[:_LISTED_LENGTH]
