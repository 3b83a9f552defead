"""Which ports `llmgw up` listens on: the usual ones, or free ones where those are busy.

Only the client port is never moved by itself: programs are pointed at it, so a busy one is said, not worked around.
"""

import socket
from dataclasses import dataclass

from llmgw.config.refusal import Refused

HOST = "127.0.0.1"
CLIENT_PORT, AGENT_PORT, ADMIN_PORT, METRICS_PORT = 8080, 7443, 9090, 9091
FIRST_ENGINE_PORT, LAST_ENGINE_PORT, ENGINE_PORTS = 20000, 20999, 20


@dataclass(frozen=True)
class Ports:
    """The four ports, all on loopback."""

    client: int
    agent: int
    admin: int
    metrics: int
    engines: str = f"{FIRST_ENGINE_PORT}-{FIRST_ENGINE_PORT + ENGINE_PORTS - 1}"


def is_free(port: int) -> bool:
    """Return whether `port` could be bound on loopback now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def any_free_port(avoid: set[int]) -> int:
    """Return a free loopback port that is not in `avoid`."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((HOST, 0))
            port = int(probe.getsockname()[1])
        if port not in avoid:
            return port


def engine_ports(kept: str | None) -> str:
    """Return a range for engines: the one `kept` from the last start, since an engine may still hold a port of it.

    Otherwise the first block of 20 that is wholly free, so that several `up` on one machine do not meet.
    """
    if kept is not None:
        return kept
    for first in range(FIRST_ENGINE_PORT, LAST_ENGINE_PORT, ENGINE_PORTS):
        block = range(first, first + ENGINE_PORTS)
        if all(is_free(port) for port in block):
            return f"{block[0]}-{block[-1]}"
    raise Refused(409, f"no {ENGINE_PORTS} ports in a row are free from {FIRST_ENGINE_PORT} to {LAST_ENGINE_PORT} for engines")


def choose_ports(client: int | None, kept_engine_ports: str | None = None) -> Ports:
    """Return the ports to use. Raises Refused when the client port (`--port`, else 8080) is busy."""
    wanted = CLIENT_PORT if client is None else client
    if not 1 <= wanted <= 65535:
        raise Refused(400, f"--port {wanted} is not a port; give one from 1 to 65535")
    if not is_free(wanted):
        raise Refused(409, f"port {wanted} is in use on {HOST}; stop what listens there, or give another with --port")
    taken = {wanted, AGENT_PORT, ADMIN_PORT, METRICS_PORT}
    chosen: list[int] = []
    for usual in (AGENT_PORT, ADMIN_PORT, METRICS_PORT):
        port = usual if usual != wanted and is_free(usual) else any_free_port(taken)
        taken.add(port)
        chosen.append(port)
    agent, admin, metrics = chosen
    return Ports(wanted, agent, admin, metrics, engine_ports(kept_engine_ports))
