"""Step 1: the request's id, and the other names a client may choose for itself (S-9, X-36).

An id lands in logs, in the store and in an answer header, so its alphabet is closed. A bad request id is replaced,
since it is only a convenience; any other bad name is refused, since ignoring it would change what the request means.
"""

import re
from collections.abc import Callable

from llmgw.gateway.refusals import Refusal, bad_request
from llmgw.net.http_message import Headers

LONGEST_ID = 128
_ID = re.compile(rf"[A-Za-z0-9._-]{{1,{LONGEST_ID}}}", re.ASCII)
_NAMES = {
    "x-llmgw-thread": re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII),
    "x-session-id": re.compile(r"[\x21-\x7e]{1,256}"),
    "x-llmgw-agent": re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII),
}
_ALPHABETS = {
    "x-llmgw-thread": "1 to 128 of A-Z a-z 0-9 . _ : -",
    "x-session-id": "1 to 256 visible ASCII characters",
    "x-llmgw-agent": "1 to 128 of A-Z a-z 0-9 . _ : -",
}
MOST_TAGS = 16
LONGEST_TAG_NAME = 64
LONGEST_TAG_VALUE = 512


def request_id(headers: Headers, new_id: Callable[[], str]) -> str:
    """Return the client's id where it is one, else a new one."""
    offered = headers.get("x-request-id") or ""
    return offered if _ID.fullmatch(offered) else new_id()


def check_names(headers: Headers) -> Refusal | None:
    """Refuse a chosen name that is too long or has characters of another alphabet."""
    for name, shape in _NAMES.items():
        value = headers.get(name)
        if value is not None and not shape.fullmatch(value):
            return bad_request(f"The header {name} must be {_ALPHABETS[name]}.")
    return None


def header_tags(headers: Headers) -> dict[str, str] | Refusal:
    """Return the tags of `x-llmgw-tags: k=v,k=v`, for clients that cannot set a body's `metadata` (T-41)."""
    tags: dict[str, str] = {}
    for value in headers.get_all("x-llmgw-tags"):
        for pair in filter(None, (part.strip() for part in value.split(","))):
            name, equals, text = pair.partition("=")
            if not equals:
                return bad_request(
                    "The header x-llmgw-tags must be name=value pairs with commas between them."
                )
            tags[name.strip()] = text.strip()
    return tags


def check_tags(tags: dict[str, str]) -> Refusal | None:
    """Refuse tags beyond the bounds of T-41."""
    if len(tags) > MOST_TAGS:
        return bad_request(
            f"A request may have at most {MOST_TAGS} tags; this one has {len(tags)}.", "metadata"
        )
    for name, value in tags.items():
        if not 1 <= len(name) <= LONGEST_TAG_NAME or len(value) > LONGEST_TAG_VALUE:
            message = f"A tag's name has 1 to {LONGEST_TAG_NAME} characters and its value at most {LONGEST_TAG_VALUE}."
            return bad_request(message, "metadata")
    return None
