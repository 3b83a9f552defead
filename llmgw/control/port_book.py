"""Which port of a node a shard's engine listens on (L-26).

A port is not given again for a minute after its shard is gone: a client that still holds the old address must not
reach another model's engine there, and the kernel may keep the old socket for that long.
"""

from llmgw.config.refusal import Refused

QUARANTINE_S = 60.0


def parse_port_range(text: str) -> range:
    """Read `20000-20999`. Raises Refused(400)."""
    first, dash, last = text.replace("–", "-").partition("-")
    if not (dash and first.strip().isdecimal() and last.strip().isdecimal()):
        raise Refused(400, f"control.port_range {text!r} is not a range of ports like 20000-20999")
    low, high = int(first), int(last)
    if not 1024 <= low <= high <= 65_535:
        raise Refused(400, f"control.port_range {text!r} must lie within 1024-65535, the lower first")
    return range(low, high + 1)


class PortBook:
    """Ports in use and in quarantine, per node."""

    def __init__(self, ports: range) -> None:
        self._ports = ports
        self._used: dict[str, set[int]] = {}
        self._free_from: dict[str, dict[int, float]] = {}

    def take(self, node: str, now_s: float) -> int | None:
        """Return the lowest port free on a node, or None when all are in use or in quarantine."""
        waiting = self._free_from.setdefault(node, {})
        for port in [p for p, since in waiting.items() if now_s >= since]:
            del waiting[port]
        used = self._used.setdefault(node, set())
        port = next((p for p in self._ports if p not in used and p not in waiting), None)
        if port is not None:
            used.add(port)
        return port

    def claim(self, node: str, port: int) -> bool:
        """Take one port that an adopted shard already uses; False when another shard holds it."""
        used = self._used.setdefault(node, set())
        if port in used:
            return False
        used.add(port)
        self._free_from.get(node, {}).pop(port, None)
        return True

    def give_back(self, node: str, port: int, now_s: float) -> None:
        """Free a port whose shard is gone; it may be taken again after the quarantine."""
        if port in self._used.get(node, set()):
            self._used[node].discard(port)
            self._free_from.setdefault(node, {})[port] = now_s + QUARANTINE_S
