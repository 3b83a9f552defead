"""The shape of a key (T-10)."""

import random

from hypothesis import given
from hypothesis import strategies as st

from llmgw.wire.api_key import ALPHABET, PREFIX, checksum, digest, is_whole

bodies = st.text(ALPHABET, min_size=40, max_size=40).map(lambda text: PREFIX + text)


@given(bodies)
def test_a_key_with_its_checksum_is_whole(body):
    assert is_whole(body + checksum(body))


def test_ten_thousand_random_keys_are_whole():
    source = random.Random(7)
    for _ in range(10_000):
        body = PREFIX + "".join(source.choices(ALPHABET, k=40))
        assert is_whole(body + checksum(body))


@given(bodies, st.integers(0, 51), st.sampled_from(ALPHABET))
def test_one_changed_character_is_noticed(body, at, other):
    key = body + checksum(body)
    changed = key[:at] + other + key[at + 1 :]
    assert is_whole(changed) == (changed == key)


@given(st.text(max_size=80))
def test_any_other_text_is_none(text):
    assert not is_whole(text)


def test_what_is_kept_is_sha_256_in_hex():
    assert digest("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
