"""The bounds of a client listener (S-1, X-31, X-32, X-34)."""

import ipaddress

import msgspec

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ListenerLimits(msgspec.Struct, frozen=True):
    """Counts, bytes and seconds. `trusted` are addresses or networks exempt from the bound per address, as loopback is.

    `idle_s` holds between requests and before the first, `header_s` from the first byte of a head to its last.
    """

    max_connections: int = 16_384
    per_address: int = 256
    trusted: tuple[str, ...] = ()
    header_s: float = 10.0
    header_bytes: int = 65_536
    header_fields: int = 100
    idle_s: float = 120.0
    body_progress_s: float = 30.0
    body_total_s: float = 300.0
    write_stall_s: float = 60.0

    def trusted_networks(self) -> tuple[_Network, ...]:
        """Return `trusted` as networks. Raises ValueError for what is neither address nor network."""
        return tuple(ipaddress.ip_network(text, strict=False) for text in self.trusted)


def plain_address(text: str) -> str:
    """Return a peer's address as text, an IPv4 one as such where a dual-stack socket shows it mapped into IPv6."""
    return text.removeprefix("::ffff:") if "." in text else text.partition("%")[0]


def is_exempt(address: str, trusted: tuple[_Network, ...]) -> bool:
    """Return whether a peer is loopback or trusted, so that many clients may stand behind it."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return parsed.is_loopback or any(parsed in network for network in trusted)
