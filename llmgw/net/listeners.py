"""Opens what a role listens on, from the address as the operator wrote it."""

import errno
import os
import re

import trio

from llmgw.config.refusal import Refused

_ADDRESS = re.compile(r"(?:\[(?P<six>[^\]]*)\]|(?P<host>[^:\[\]]*)):(?P<port>\d{1,5})")


def parse_address(address: str) -> tuple[str | None, int]:
    """Return host (None: every address of the machine) and port of ":8080", "127.0.0.1:9090" or "[::1]:0"."""
    match = _ADDRESS.fullmatch(address.strip())
    if match is None or int(match["port"]) > 65_535:
        raise Refused(400, f"`{address}` is no address to listen on: write HOST:PORT, :PORT or [IPV6]:PORT.")
    return match["six"] or match["host"] or None, int(match["port"])


async def open_listeners(address: str, *, backlog: int = 1024) -> list[trio.SocketListener]:
    """Listen on an address; a host name may give several listeners. Raises Refused 400, 403, 409 in words."""
    host, port = parse_address(address)
    try:
        return await trio.open_tcp_listeners(port, host=host, backlog=backlog)
    except OSError as error:
        raise _refusal(address, error) from None


def _refusal(address: str, error: OSError) -> Refused:
    found = error
    while found.errno is None and isinstance(found.__cause__, OSError):
        found = found.__cause__
    if found.errno == errno.EADDRINUSE:
        return Refused(409, f"Another program listens on {address}: stop it, or choose another port.")
    if found.errno == errno.EACCES:
        return Refused(403, f"This user may not listen on {address}: choose a port of 1024 or above.")
    reason = os.strerror(found.errno) if found.errno and found.errno > 0 else str(found)
    return Refused(400, f"Cannot listen on {address}: {reason}.")
