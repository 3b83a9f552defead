"""Ids."""

import re

from llmgw.store.ids import new_id


def test_an_id_is_its_prefix_and_sixteen_characters_of_lower_base32() -> None:
    made = {new_id("key") for _ in range(1000)}
    assert len(made) == 1000
    assert all(re.fullmatch(r"key-[a-z2-7]{16}", id) for id in made)
