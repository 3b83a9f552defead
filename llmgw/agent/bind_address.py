"""Which address engines listen on (P-54, E-7), and how the management address is found (P section 11).

A control plane reaches engines at the node's management address, so engines listen there and nowhere else. When that
is a name, or an address this machine does not have (behind NAT), nothing but every address would work.
"""

import ipaddress
import socket
from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlsplit

_FIB_TRIE = Path("/proc/net/fib_trie")
_IF_INET6 = Path("/proc/net/if_inet6")
_ANY_PORT = 9


def bind_address(mgmt_addr: str, own: Collection[str]) -> str:
    """Return the address to listen on, or "" for every address (P-54). `own` are this machine's addresses."""
    try:
        address = ipaddress.ip_address(mgmt_addr)
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        address = address.ipv4_mapped
    if address.is_unspecified:
        return ""
    if address.is_loopback and address.version == 4:
        return str(address)
    return str(address) if str(address) in own else ""


def port_fault(host: str, port: int) -> str | None:
    """Return a sentence when another program listens on a port already, or None.

    Asked before an engine spends minutes loading only to find out, in whatever words it has for it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return f"the engine cannot listen on {host} port {port}: {error.strerror or error}"
    return None


def own_addresses() -> frozenset[str]:
    """Return the addresses of this machine's interfaces, as the kernel's own tables list them."""
    return frozenset({*_local_ipv4(_read(_FIB_TRIE)), *_ipv6(_read(_IF_INET6))})


def _local_ipv4(table: str) -> set[str]:
    """`/32 host LOCAL` lines of fib_trie, each under the line `|-- address`."""
    found: set[str] = set()
    at = ""
    for line in table.splitlines():
        words = line.split()
        if words[:1] == ["|--"] and len(words) > 1:
            at = words[1]
        elif words[:3] == ["/32", "host", "LOCAL"]:
            found.add(at)
    return found


def _ipv6(table: str) -> set[str]:
    """32 hex digits at the start of each line of if_inet6."""
    heads = (line.split()[0] for line in table.splitlines() if line.strip())
    return {str(ipaddress.IPv6Address(bytes.fromhex(head))) for head in heads if len(head) == 32}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def route_address(server: str) -> str:
    """Return the address this machine would use to reach a control plane's URL, or "127.0.0.1" when none is known.

    Connecting a datagram socket sends nothing: the kernel only chooses the route.
    """
    host = urlsplit(server if "//" in server else f"//{server}").hostname or ""
    try:
        family, _, _, _, target = socket.getaddrinfo(host, _ANY_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except (OSError, UnicodeError):
        return "127.0.0.1"


def interface_of(address: str) -> str:
    """Return the interface that has an IPv4 address, "" when unknown."""
    try:
        wanted = ipaddress.IPv4Address(address)
    except ValueError:
        return ""
    for _, name in socket.if_nameindex():
        if _interface_ipv4(name) == str(wanted):
            return name
    return ""


def _interface_ipv4(name: str) -> str:
    import fcntl
    import struct

    siocgifaddr = 0x8915
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, siocgifaddr, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])
