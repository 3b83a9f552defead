"""Where a request really comes from: the peer, or what a trusted proxy in front says of it (S-12).

`X-Forwarded-For` is a list anyone can begin; only the entries that our own proxies added can be believed. So it is
read from the right, and the first address that is not a trusted proxy's is the client.
"""

import ipaddress
from collections.abc import Sequence

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(entries: Sequence[str]) -> tuple[Network, ...]:
    """Return the networks of `router.trusted_proxies`. Entries were checked with the settings; bad ones are left out."""
    parsed: list[Network] = []
    for entry in entries:
        try:
            parsed.append(ipaddress.ip_network(entry, strict=False))
        except ValueError:
            continue
    return tuple(parsed)


def client_address(peer: str, forwarded_for: Sequence[str], trusted: Sequence[Network]) -> str:
    """Return the client's address. `forwarded_for` holds the header's values in order of appearance."""
    if not trusted or not _is_in(peer, trusted):
        return peer
    hops = [hop.strip() for value in forwarded_for for hop in value.split(",")]
    for hop in reversed(hops):
        try:
            address = str(ipaddress.ip_address(hop))
        except ValueError:
            return peer
        if not _is_in(address, trusted):
            return address
        peer = address
    return peer


def _is_in(address: str, trusted: Sequence[Network]) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in trusted)
