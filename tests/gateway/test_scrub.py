"""An engine's words without our paths and addresses (S-56)."""

import pytest

from llmgw.gateway.scrub import HIDDEN, scrubbed


@pytest.mark.parametrize(
    "secret",
    [
        "/srv/models/a.gguf",
        "~/models/x",
        "./models/x.bin",
        "C:\\models\\x",
        "10.1.2.3",
        "10.1.2.3:8000",
        "[fd00::1]:8000",
        "fe80:0:0:0:1:2:3:4",
        "http://engine-7:20000/v1",
        "tcp://a.b:1",
        "node7.example.org:20001",
        "localhost:8080",
    ],
)
def test_paths_and_addresses_are_hidden(secret):
    assert scrubbed(f"failed to load {secret} twice") == f"failed to load {HIDDEN} twice"


@pytest.mark.parametrize(
    "message",
    [
        "temperature must be between 0 and 2 and/or unset",
        "model org/name:tag does not exist",
        "at most 4096 tokens, got 5000 (1.5x)",
        "expected text/plain",
        "ratio 3/4 at 12:30",
    ],
)
def test_ordinary_words_stay(message):
    assert scrubbed(message) == message


def test_a_message_is_cut():
    assert len(scrubbed("x" * 100_000)) == 2000
