"""The forms of a model's source, and the name its copy has in the cache (E-180, E-181). Pure text."""

import hashlib
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit, urlunsplit

HUB_HOST = "huggingface.co"
_HUB_PREFIXES = ("/", "./", "../", "~", "http://", "https://", "hf:")
_SHA256 = re.compile(r"sha256=([0-9a-fA-F]{64})")
_SAFE = re.compile(r"[^A-Za-z0-9._-]+")


class BadSource(Exception):
    """A source of no known form; the sentence says which there are."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


@dataclass(frozen=True)
class RemoteSource:
    """Something to download: `url` without fragment, `sha256` in lower case hex or "" when none was given."""

    source: str
    url: str
    sha256: str
    is_set: bool
    cache_name: str


def is_hub_id(source: str) -> bool:
    """Return whether a source is a bare `org/repo`, which engines download themselves (E-105)."""
    return bool(source) and not source.startswith(_HUB_PREFIXES) and "/" in source


def remote_source(source: str) -> RemoteSource | None:
    """Return what to download for a source, or None for one that is never fetched. Raises BadSource."""
    if source.startswith("/"):
        return None
    if source.startswith("hf:"):
        return _described(source, _hub_url(source))
    if source.startswith(("http://", "https://")):
        return _described(source, source)
    if source.startswith(("file:", ".", "~")) or not is_hub_id(source) or ":" in source:
        raise BadSource(
            f"the source {source!r} is none of: an absolute path, http(s)://HOST/FILE, http(s)://HOST/DIR/, "
            "hf:ORG/REPO/FILE, ORG/REPO"
        )
    return None


def _hub_url(source: str) -> str:
    """hf:org/repo/file[@rev] -> the file's address."""
    place, _, revision = source.removeprefix("hf:").partition("@")
    parts = place.split("/")
    if len(parts) < 3 or any(part in ("", ".", "..") for part in parts):
        raise BadSource(f"the source {source!r} is not hf:ORG/REPO/FILE, with @REVISION after it if wanted")
    return f"https://{HUB_HOST}/{parts[0]}/{parts[1]}/resolve/{revision or 'main'}/{'/'.join(parts[2:])}"


def _described(source: str, address: str) -> RemoteSource:
    parts = urlsplit(address)
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise BadSource("the source has a user or password in its address; those are kept out of sources and logs")
    if not parts.hostname:
        raise BadSource(f"the source {source!r} names no host")
    digest = _digest(parts.fragment, source)
    is_set = parts.path.endswith("/")
    if is_set and digest:
        raise BadSource(f"the source {source!r} is a set; its checksums are in its llmgw-set.json")
    url = urlunsplit((parts.scheme, parts.netloc, parts.path, parts.query, ""))
    return RemoteSource(source, url, digest, is_set, cache_name(source, parts.path))


def _digest(fragment: str, source: str) -> str:
    if not fragment:
        return ""
    found = _SHA256.fullmatch(fragment)
    if not found:
        raise BadSource(f"the source {source!r} ends in a fragment that is not #sha256= and 64 hex digits")
    return found.group(1).lower()


def cache_name(source: str, path: str) -> str:
    """Return `<16 hex of sha256(source)>-<last path element>`, the element made safe for a file name."""
    last = unquote(path.rstrip("/").rpartition("/")[2])
    return f"{hashlib.sha256(source.encode()).hexdigest()[:16]}-{_SAFE.sub('_', last)[-120:] or 'weights'}"
