"""The words of L-95 for a model, and the sentence that goes with them."""

from msgspec import Struct

from llmgw.policy.reconcile import Note
from llmgw.policy.snapshot import Failures

SERVING, STARTING, ON_DEMAND = "serving", "starting", "on demand"
WAITING, SHORT, PARKED, STOPPED = "waiting for room", "short", "parked", "stopped"


class Status(Struct, frozen=True):
    """A model's word, why it is not serving as wanted, and whether it fits nowhere now (L-104)."""

    word: str
    reason: str = ""
    is_unplaceable: bool = False


def status(note: Note, failures: Failures, *, ready: int, starting: int, now_s: float) -> Status:
    """Return how a model stands. `starting`: replicas on their way, `note`: the last pass's."""
    if note.most == 0 and note.desired == 0:
        return Status(STOPPED, "its scaling has max 0; set a max of 1 or more to start it")
    if failures.is_parked:
        times = f"{failures.count} failed starts" if failures.count > 1 else "a start that no retry can cure"
        return Status(PARKED, f"parked after {times}: {failures.error}")
    if note.desired == 0:
        return Status(ON_DEMAND)
    if ready >= note.desired:
        return Status(SERVING)
    is_unplaceable = note.no_room is not None and starting == 0
    reason = note.no_room.sentence() if note.no_room is not None else _waiting_to_retry(failures, now_s)
    if ready:
        return Status(SHORT, reason, is_unplaceable)
    return Status(WAITING if is_unplaceable else STARTING, reason, is_unplaceable)


def _waiting_to_retry(failures: Failures, now_s: float) -> str:
    if not failures.count:
        return ""
    wait_s = max(failures.retry_s - now_s, 0.0)
    when = f"; next try in {wait_s:.0f} s" if wait_s > 0 else ""
    times = "once" if failures.count == 1 else f"{failures.count} times"
    return f"failed {times}, last: {failures.error}{when}"
