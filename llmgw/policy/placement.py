"""Where one replica goes, or why nowhere: profiles in order, nodes filtered and ordered, the first that fits wins.

The same function answers a real placement and a simulation (L-50): the difference is only whose copy of the room is
passed in.
"""

from collections.abc import Sequence

from msgspec import Struct

from llmgw.config.model import ModelDefinition, Profile
from llmgw.policy.candidates import Need, Rejection, domains_of, need_of, order, rejection, share_on, why
from llmgw.policy.fingerprint import fingerprint, threads
from llmgw.policy.room import Room
from llmgw.policy.snapshot import Failures, Share

FITS, BUSY, UNFIT = "fits", "busy", "unfit"
HEADROOM_CAP = 64


class Placed(Struct, frozen=True):
    """A replica's place. `rejections` are kept: they say why it is not somewhere else (L-49)."""

    model: str
    profile: str
    share: Share
    fingerprint: str
    pool: str
    threads: int
    why: str
    rejections: tuple[Rejection, ...] = ()


class NoRoom(Struct, frozen=True):
    """No node takes it now. `verdicts`: profile -> `busy` (would fit another time) or `unfit` (never, here)."""

    model: str
    rejections: tuple[Rejection, ...]
    verdicts: dict[str, str]

    def sentence(self) -> str:
        """Return what it waits for, in one sentence: the first rejection of the best profile that could ever fit."""
        if not self.rejections:
            return "there is no node yet"
        busy = {p for p, verdict in self.verdicts.items() if verdict == BUSY}
        shown = next((r for r in self.rejections if r.profile in busy), self.rejections[0])
        others = len({r.node for r in self.rejections if r.profile == shown.profile}) - 1
        more = f" (and {others} more nodes)" if others > 0 else ""
        return f"profile {shown.profile} on {shown.node}: {shown.reason}{more}"


def place(definition: ModelDefinition, room: Room, failures: Failures, now_s: float) -> Placed | NoRoom:
    """Return where a replica goes now. Nodes that failed it lately are taken only when no other would do (L-61)."""
    rejections: list[Rejection] = []
    soft: list[tuple[Need, str]] = []
    for profile in definition.profiles:
        need = need_of(definition, profile, room.weight_bytes)
        fit: list[str] = []
        for node_id in sorted(room.nodes):
            refused = rejection(need, room.nodes[node_id], failures, now_s)
            if refused is None:
                fit.append(node_id)
                continue
            rejections.append(refused)
            if refused.is_soft:
                soft.append((need, node_id))
        if fit:
            return _placed(need, room, fit, rejections)
    if soft:
        need = soft[0][0]
        return _placed(need, room, [n for other, n in soft if other is need], rejections)
    return NoRoom(definition.name, tuple(rejections), verdicts(definition, room))


def verdicts(definition: ModelDefinition, room: Room) -> dict[str, str]:
    """Return for each profile whether the hardware there is would hold it if nothing else ran (L-51)."""
    empty = [r.emptied() for r in room.nodes.values()]
    out: dict[str, str] = {}
    for profile in definition.profiles:
        need = need_of(definition, profile, room.weight_bytes)
        could = any(rejection(need, r, Failures(), 0.0) is None for r in empty)
        out[profile.name] = BUSY if could else UNFIT
    return out


def fitting(
    definition: ModelDefinition, profile: Profile, room: Room, failures: Failures, now_s: float
) -> tuple[list[str], list[Rejection]]:
    """Return the nodes that would take a replica of one profile now, best first, and why the others would not."""
    need = need_of(definition, profile, room.weight_bytes)
    refused = {n: rejection(need, r, failures, now_s) for n, r in sorted(room.nodes.items())}
    near = domains_of(room, definition.name)
    fit = sorted((n for n, r in refused.items() if r is None), key=lambda n: order(need, room.nodes[n], near))
    return fit, [r for r in refused.values() if r is not None]


def headroom(definition: ModelDefinition, room: Room) -> int:
    """Return how many more replicas would place now, counted up to 64 (L-92), by placing them in a simulation."""
    count = 0
    while count < HEADROOM_CAP:
        placed = place(definition, room, Failures(), 0.0)
        if isinstance(placed, NoRoom):
            break
        room = room.taking(placed.share, definition.name)
        count += 1
    return count


def _placed(need: Need, room: Room, fit: Sequence[str], rejections: Sequence[Rejection]) -> Placed:
    near = domains_of(room, need.definition.name)
    best = min(fit, key=lambda node_id: order(need, room.nodes[node_id], near))
    return Placed(
        model=need.definition.name,
        profile=need.profile.name,
        share=share_on(need, room.nodes[best]),
        fingerprint=fingerprint(need.definition, need.profile),
        pool=need.profile.gpu_class or "cpu",
        threads=threads(need.definition, need.profile),
        why=why(need, room.nodes[best], near, len(fit)),
        rejections=tuple(r for r in rejections if r.node != best or r.profile != need.profile.name),
    )
