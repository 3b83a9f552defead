"""The forms of a weights source (E-180), judged by their text alone."""

import re
from urllib.parse import urlsplit

_PART = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_HUB_FILE = re.compile(rf"hf:{_PART}/{_PART}/[^@\s]+(?:@[^@\s/]+)?\Z")
_HUB_REPO = re.compile(rf"{_PART}/{_PART}\Z")
_FORMS = "an absolute path, an http(s) URL of a file or of a folder ending in /, hf:org/repo/file, or org/repo"


def source_fault(source: str) -> str | None:
    """Return why `source` is not a place weights can come from, or None."""
    if not source:
        return "source is empty; name " + _FORMS
    if len(source) > 4096 or any(ord(c) < 32 or ord(c) == 127 for c in source):
        return "source holds control characters or is longer than 4096 characters"
    if source.startswith("/"):
        return "source has a `..` in its path" if ".." in source.split("/") else None
    if source.startswith(("http://", "https://")):
        return _url_fault(source)
    if source.startswith("hf:"):
        good = _HUB_FILE.match(source) and ".." not in source.split("/")
        return None if good else f"source {source!r} is not hf:org/repo/file or hf:org/repo/file@revision"
    if _HUB_REPO.match(source):
        return None
    return f"source {source!r} is none of: {_FORMS}"


def is_path(source: str) -> bool:
    """Return whether the source is a file or folder of the node itself, never fetched."""
    return source.startswith("/")


def _url_fault(source: str) -> str | None:
    try:
        parts = urlsplit(source)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "source is not a URL that can be read"
    if not host:
        return "source is a URL without a host"
    if parts.username is not None or parts.password is not None:
        return "source carries a user name or password; a definition is shown to many, so it may hold none"
    return None
