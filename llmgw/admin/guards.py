"""What a request must look like before it is read: pure checks over header values, each a sentence when it fails.

A browser on the operator's machine can reach a listener on loopback. These rules are why a page in it cannot use that:
a name that was rebound to 127.0.0.1 fails the Host rule (C-04), another site's script fails Origin and Sec-Fetch-Site
(C-05), and a plain form cannot send a JSON content type (C-06). Each raises Refused.
"""

import ipaddress
import re
from urllib.parse import urlsplit

from llmgw.config.refusal import Refused

MAX_BODY_BYTES = 1024 * 1024
"""Largest body of a change (C-07)."""

_ACTOR = re.compile(r"[A-Za-z0-9._@-]{1,64}\Z", re.ASCII)
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]/@\s]+))(?::(?P<port>\d{1,5}))?\Z", re.ASCII)
UNKNOWN_ACTOR = "unknown"


def check_host(host: str | None) -> None:
    """Demand an IP address or `localhost`, with or without a port (C-04)."""
    if host is None or not _is_address(host):
        raise Refused(
            403, "the Host of a request here must be an IP address or localhost; ask by the address, not by a name"
        )


def check_same_site(host: str | None, origin: str | None, fetch_site: str | None) -> None:
    """Refuse what another site's page sends (C-05). A program that is no browser sends neither header."""
    if fetch_site is not None and fetch_site.strip().lower() not in ("same-origin", "none"):
        raise Refused(403, "a page of another site may not use this API")
    if origin is not None and not _is_same_origin(origin, host or ""):
        raise Refused(403, "the Origin of this request is another host; a page of another site may not use this API")


def check_json_content(content_type: str | None) -> None:
    """Demand `application/json` of everything that is not GET or HEAD, body or not (C-06)."""
    media = (content_type or "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise Refused(415, "changes are sent with Content-Type: application/json, also when they have no body")


def actor_of(header: str | None) -> str:
    """Return the claimed actor, `unknown` when there is none (C-08)."""
    if header is None:
        return UNKNOWN_ACTOR
    if _ACTOR.match(header) is None:
        raise Refused(400, "X-Llmgw-Actor holds letters, digits and ._-@, at most 64 of them")
    return header


def is_loopback(host: str) -> bool:
    """Return whether a listen address's host is loopback; a name other than localhost is taken for not."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_listen_address(address: str, *, remote_allowed: bool) -> None:
    """Refuse an `admin_listen` that is not loopback unless `admin_remote` allows it (C-01)."""
    host = address.rpartition(":")[0]
    if not remote_allowed and not is_loopback(host):
        raise Refused(
            400,
            f"admin_listen {address} is not loopback, and the admin token would cross the network unencrypted; "
            "listen on 127.0.0.1, or set admin_remote: true when that network is trusted or TLS stands before it",
        )


def _is_address(host: str) -> bool:
    match = _HOST.match(host)
    if match is None or (match["port"] is not None and int(match["port"]) > 65535):
        return False
    if match["name"] is not None and match["name"].lower() == "localhost":
        return True
    try:
        ipaddress.IPv6Address(match["v6"]) if match["v6"] is not None else ipaddress.IPv4Address(match["name"])
    except ValueError:
        return False
    return True


def _is_same_origin(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.strip().lower()
    except ValueError:
        return False
