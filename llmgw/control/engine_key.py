"""The key an engine demands, derived so that any control plane can recompute it after a handover (P-56)."""

import base64
import hashlib
import hmac


def engine_key(secret: bytes, replica_id: str) -> str:
    """Return base32(HMAC-SHA256(secret, replica id)), lower case without padding."""
    digest = hmac.new(secret, replica_id.encode(), hashlib.sha256).digest()
    return base64.b32encode(digest).decode().rstrip("=").lower()
