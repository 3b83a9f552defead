"""An engine's error message as a client may read it: its words, without our paths and addresses (S-56).

Engines put file names of the weights, their own URL and socket addresses into errors. They tell a client nothing it
can use, and an attacker where things are.
"""

import re

HIDDEN = "[hidden]"
LONGEST_MESSAGE = 2000
_URL = re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>]+")
_ADDRESS = re.compile(
    r"\[[0-9a-fA-F:.]*:[0-9a-fA-F:.]*\](?::\d+)?"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
    r"|\b(?:localhost|[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)+):\d{2,5}\b"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}(?![\w:])"
)
_PATH = re.compile(r"(?<![\w/.<])(?:~|\.{1,2})?/(?:[\w.@+~-]+/)*[\w.@+~-]+|\b[A-Za-z]:\\[^\s'\"]+")


def scrubbed(message: str) -> str:
    """Return a message without URLs, network addresses and file paths, at most 2,000 characters long."""
    message = _URL.sub(HIDDEN, message[: LONGEST_MESSAGE * 2])
    message = _ADDRESS.sub(HIDDEN, message)
    return _PATH.sub(HIDDEN, message)[:LONGEST_MESSAGE]
