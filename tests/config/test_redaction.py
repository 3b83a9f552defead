import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.config.redaction import STRUCK, names_a_secret, redact, redact_text

KEY = "llmgw_" + "aB3" * 15 + "z"


@pytest.mark.parametrize(
    "name",
    ["password", "smtp_password", "secret", "client_secret", "token", "HF_TOKEN", "api_key", "key", "ca.key", "dsn",
     "Authorization", "private_key_pem", "apiKey", "set-cookie"],
)
def test_names_of_secrets_are_known(name: str):
    assert names_a_secret(name)


@pytest.mark.parametrize("name", ["model", "max_tokens", "prompt_tokens", "key_id", "keyboard", "source", "monkey"])
def test_other_names_are_left_alone(name: str):
    assert not names_a_secret(name)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"no such key {KEY}.", f"no such key {STRUCK}."),
        ("https://user:pw@host/x", f"https://{STRUCK}@host/x"),
        ("postgres://u:p/w@h/db", f"postgres://{STRUCK}@h/db"),
        ("-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\nafter", f"{STRUCK}\nafter"),
        ("-----BEGIN EC PRIVATE KEY-----\nMII", STRUCK),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {STRUCK}"),
        ("https://host/path@v1", "https://host/path@v1"),
        ("an ordinary sentence", "an ordinary sentence"),
    ],
)
def test_shapes_of_secrets_are_struck_out_of_text(text: str, left: str):
    assert redact_text(text) == left


def test_options_of_a_command_line_lose_their_values():
    assert redact(["--api-key", "x", "--threads", "4", "--token=y"]) == [
        "--api-key", STRUCK, "--threads", "4", f"--token={STRUCK}",
    ]


def nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)


@given(st.recursive(st.just(KEY) | st.integers() | st.text(max_size=5), nested))
def test_no_key_survives_at_any_depth(value):
    assert KEY not in repr(redact(value))
