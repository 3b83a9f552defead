"""Ids of the store: a prefix and 16 characters of lower-case base32 (chapter 30, section 0)."""

import base64
import secrets


def new_id(prefix: str) -> str:
    """Return a fresh id such as `key-4q7x...`: 80 bits from the system's generator."""
    return f"{prefix}-{base64.b32encode(secrets.token_bytes(10)).decode().lower()}"
