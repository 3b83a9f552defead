"""Which control plane to dial next, and when: pure decisions over values (20 P-10, P-18, P-24, P-26, P-27).

The rule of P-26 is "no delay while an address is untried": a standby answers at once, so an agent finds the leader
among three in milliseconds. The wait comes after each full round. It grows while an outage lasts and begins again from
the bottom after any link on which the control plane was heard; without that, each survived failover slows the next.
"""

import ipaddress
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llmgw.config.refusal import Refused

DEFAULT_PORT = 7443
_HOST_NAME = re.compile(
    r"^(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*\.?\Z"
)


@dataclass(frozen=True, slots=True)
class Address:
    """A control plane to dial; prints in the form that `servers` takes."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def normalise(entry: str, has_tls: bool) -> Address:
    """Read `host`, `host:port` or `https://host:port` (P-10). Raises Refused(400) naming the entry, also for P-9's
    mixed forms: `https` without `tls` in agent.yaml, `http` with it.
    """
    scheme, found, rest = entry.strip().rpartition("://")
    scheme = scheme.lower() if found else ("https" if has_tls else "http")
    if scheme not in ("http", "https"):
        raise Refused(400, f"server address {entry!r} must begin with https:// or http://, or with neither")
    if scheme == "https" and not has_tls:
        raise Refused(400, f"server address {entry!r} is https, but agent.yaml has no tls section")
    if scheme == "http" and has_tls:
        raise Refused(
            400, f"server address {entry!r} is http, but agent.yaml has a tls section; write https://"
        )
    host, port = _host_and_port(rest.rstrip("/"), entry)
    return Address(scheme, host, port)


def _host_and_port(text: str, entry: str) -> tuple[str, int]:
    host, port = text, ""
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise Refused(400, f"server address {entry!r} has a bracket that is not closed before the port")
        port = port[1:] if port else ""
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
        if not port:
            raise Refused(400, f"server address {entry!r} has no port after the colon")
    if not _is_host(host):
        raise Refused(400, f"server address {entry!r} names no host")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
        raise Refused(400, f"server address {entry!r} has a port that is not between 1 and 65535")
    return host.lower(), int(port) if port else DEFAULT_PORT


def _is_host(text: str) -> bool:
    if _HOST_NAME.match(text):
        return True
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def merged(configured: Sequence[Address], named: Sequence[str], has_tls: bool) -> list[Address]:
    """Return the dial list: what agent.yaml names, in its order, then what the leader named besides (P-70).

    The leader's entries that cannot be read are skipped (P-10).
    """
    addresses = list(dict.fromkeys(configured))
    for entry in named:
        try:
            address = normalise(entry, has_tls)
        except Refused:
            continue
        if address not in addresses:
            addresses.append(address)
    return addresses


class Backoff:
    """The wait after a full round, seconds: doubling to a bound, with jitter, low at the start of an outage (P-27)."""

    FIRST_S = 0.5
    LONGEST_S = 30.0
    EARLY_LONGEST_S = 2.0
    EARLY_S = 60.0
    JITTER = 0.2

    def __init__(self, jitter: Callable[[], float]) -> None:
        """`jitter` gives a number between -1 and 1."""
        self._jitter = jitter
        self._rounds = 0
        self._outage_began_s: float | None = None

    def heard(self) -> None:
        """Begin again from the bottom: a control plane was heard from."""
        self._rounds = 0
        self._outage_began_s = None

    def lost(self, now_s: float) -> None:
        """Note that there is no link; the outage counts from the first call."""
        if self._outage_began_s is None:
            self._outage_began_s = now_s

    def wait_s(self, now_s: float, is_barred: bool = False) -> float:
        """Return the next wait. `is_barred`: a control plane refused this node as such, so only the longest (P-18)."""
        self.lost(now_s)
        bound_s = (
            self.EARLY_LONGEST_S if now_s - (self._outage_began_s or 0.0) < self.EARLY_S else self.LONGEST_S
        )
        plain_s = min(self.FIRST_S * 2.0 ** min(self._rounds, 16), self.LONGEST_S)
        self._rounds += 1
        if is_barred:
            plain_s = bound_s = self.LONGEST_S
        jittered_s = plain_s * (1.0 + self.JITTER * self._jitter())
        return min(jittered_s, bound_s) if not is_barred else jittered_s


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended. `was_heard`: a message came from the control plane; `is_barred`: it refused this node."""

    was_heard: bool
    is_barred: bool = False
    leader_hint: str = ""


@dataclass(frozen=True, slots=True)
class NextDial:
    """What to do next: wait, then dial. `attempt` counts from 1 since a control plane was last heard."""

    address: Address
    delay_s: float
    attempt: int


class Rounds:
    """Round-robin over a list that is read afresh each round (P-26, P-29)."""

    def __init__(self, backoff: Backoff, read_list: Callable[[], Sequence[Address]], has_tls: bool) -> None:
        """`read_list` must never be empty."""
        self._backoff = backoff
        self._read_list = read_list
        self._has_tls = has_tls
        self._list = list(read_list())
        self._tried: set[Address] = set()
        self._is_barred = False
        self._attempt = 1
        self._current = self._list[0]

    def first(self) -> NextDial:
        """Return where to begin: the first address, at once."""
        return NextDial(self._current, 0.0, self._attempt)

    def after(self, ended: Ended, now_s: float) -> NextDial:
        """Decide what follows the attempt on the present address, at `now_s` of any steady clock."""
        if ended.was_heard:
            self._backoff.heard()
            self._list = list(self._read_list())
            self._tried.clear()
            self._is_barred = False
            self._attempt = 0
        self._backoff.lost(now_s)
        self._attempt += 1
        self._tried.add(self._current)
        self._is_barred = self._is_barred or ended.is_barred
        untried = self._untried(ended.leader_hint)
        if untried is not None:
            self._current = untried
            return NextDial(untried, 0.0, self._attempt)
        return self._new_round(now_s)

    def _untried(self, hint: str) -> Address | None:
        """Return the next untried address after the present one, the hinted leader first (P-24)."""
        at = self._list.index(self._current) if self._current in self._list else -1
        ordered = self._list[at + 1 :] + self._list[: at + 1]
        left = [address for address in ordered if address not in self._tried]
        hinted = self._hinted(hint)
        if hinted in left:
            return hinted
        return left[0] if left else None

    def _hinted(self, hint: str) -> Address | None:
        try:
            return normalise(hint, self._has_tls) if hint else None
        except Refused:
            return None

    def _new_round(self, now_s: float) -> NextDial:
        delay_s = self._backoff.wait_s(now_s, self._is_barred)
        before = self._current
        old, self._list = self._list, list(self._read_list())
        self._tried.clear()
        self._is_barred = False
        following = old[(old.index(before) + 1) % len(old)] if before in old else self._list[0]
        self._current = following if following in self._list else self._list[0]
        return NextDial(self._current, delay_s, self._attempt)
