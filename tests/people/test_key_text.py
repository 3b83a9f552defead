"""The text of a key (T-10)."""

from llmgw.people.key_text import digest, is_whole, listed_prefix, new_key


def test_ten_thousand_new_keys_are_whole_and_different() -> None:
    made = {new_key() for _ in range(10_000)}
    assert len(made) == 10_000
    assert all(is_whole(text) and len(text) == 52 for text in made)


def test_one_changed_character_anywhere_makes_a_key_not_whole() -> None:
    text = new_key()
    for place in range(len(text)):
        other = "a" if text[place] != "a" else "b"
        assert not is_whole(text[:place] + other + text[place + 1 :])


def test_a_listing_shows_twelve_characters_and_the_digest_is_sha256() -> None:
    assert listed_prefix("llmgw_abcdefghij") == "llmgw_abcdef"
    assert digest("llmgw_x") == "1b4a63bd2aa944ec893c143de3b7de64eb7dc67b6f1f189f93af54924f251b0e"
