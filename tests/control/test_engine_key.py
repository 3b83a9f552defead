from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from llmgw.control.engine_key import engine_key


@pytest.mark.covers("P-56")
def test_the_key_is_the_hmac_of_the_replica_in_lower_case_base32_without_padding() -> None:
    key = engine_key(b"s" * 32, "chat-aaaaaa")
    padded = key.upper() + "=" * (-len(key) % 8)
    assert base64.b32decode(padded) == hmac.new(b"s" * 32, b"chat-aaaaaa", hashlib.sha256).digest()
    assert key == key.lower()
    assert "=" not in key
    assert engine_key(b"s" * 32, "chat-aaaaab") != key
