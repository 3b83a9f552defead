"""How many replicas a model wants now (L-20..L-23): its window's bounds, its requests, and what was decided lately.

Growing reacts to requests that wait, since a queue is the only sign no engine can hide; shrinking reacts to work that
would fit on fewer replicas at half use. Each step is one replica, with a pause after it, so that a replica that is
still loading is not answered by ordering another.
"""

from msgspec import Struct
from msgspec.structs import replace

from llmgw.config.model import ModelDefinition, Profile, Scaling
from llmgw.policy.snapshot import Load, ScaleState

HIGH_FOR_S = 15.0
LOW_FOR_S = 300.0
PAUSE_UP_S = 60.0
PAUSE_DOWN_S = 300.0
HALF_USE = 0.5

_SLOT_FLAGS = {
    "llamacpp": (("--parallel", "-np"), 4),
    "vllm": (("--max-num-seqs",), 256),
    "sglang": (("--max-running-requests",), 256),
    "trtllm": (("--max_batch_size",), 256),
    "sim": (("--parallel",), 4),
}


class Wanted(Struct, frozen=True):
    """The answer: `desired` replicas between `least` and `most`, what to remember, and a sentence when it changed."""

    desired: int
    least: int
    most: int
    state: ScaleState
    sentence: str = ""


def decide(
    scaling: Scaling, bounds: tuple[int, int], load: Load, state: ScaleState, *, ready: int, slots: int, now_s: float
) -> Wanted:
    """Return how many replicas are wanted.

    `ready`: replicas that take requests; `slots`: requests one replica runs at once.
    """
    least, most = bounds
    if most == 0:
        return Wanted(desired=0, least=0, most=0, state=ScaleState())
    target = min(max(state.target, least), most)
    if least == 0:
        target, why = _on_demand(scaling, load, target, now_s)
        if target == 0:
            return Wanted(desired=0, least=0, most=most, state=replace(state, target=0, **_NO_TREND), sentence=why)
    else:
        why = ""
    state = _with_trends(scaling, load, state, target=target, ready=ready, slots=slots, now_s=now_s)
    stepped, step = _stepped(state, target, least, most, ready=ready, now_s=now_s)
    sentence = step.format(load=load, ready=ready, scaling=scaling) if step else why
    return Wanted(desired=stepped.target, least=least, most=most, state=stepped, sentence=sentence)


def slots_of(definition: ModelDefinition) -> int:
    """Return how many requests one replica of the best profile runs at once, from its arguments or the default."""
    return _slots(definition.profiles[0]) if definition.profiles else 1


def _slots(profile: Profile) -> int:
    flags, slots = _SLOT_FLAGS.get(profile.engine, ((), 4))
    for flag, value in zip(profile.args, [*profile.args, ""][1:], strict=True):
        name, equals, glued = flag.partition("=")
        text = glued if equals else value
        if name in flags and text.isdecimal() and int(text) > 0:
            slots = int(text)
    return slots


_NO_TREND: dict[str, None] = {"high_since_s": None, "low_since_s": None}


def _on_demand(scaling: Scaling, load: Load, target: int, now_s: float) -> tuple[int, str]:
    """Apply L-21 (a): wanted from the first request until unused for idle_timeout."""
    is_used = load.waiting > 0 or load.inflight > 0
    is_recent = load.last_used_s is not None and now_s - load.last_used_s < max(scaling.idle_timeout, 1.0)
    if is_used or is_recent:
        return max(target, 1), "" if target else "asked for, loading on demand"
    return 0, f"unused for {scaling.idle_timeout:.0f} s, unloading" if target else ""


def _with_trends(
    scaling: Scaling, load: Load, state: ScaleState, *, target: int, ready: int, slots: int, now_s: float
) -> ScaleState:
    is_high = ready > 0 and load.waiting > scaling.queue_target * ready
    room = (target - 1) * slots * HALF_USE
    is_low = target > 1 and load.waiting + load.inflight <= room
    return replace(
        state,
        target=target,
        high_since_s=(now_s if state.high_since_s is None else state.high_since_s) if is_high else None,
        low_since_s=(now_s if state.low_since_s is None else state.low_since_s) if is_low else None,
    )


def _stepped(
    state: ScaleState, target: int, least: int, most: int, *, ready: int, now_s: float
) -> tuple[ScaleState, str]:
    if _is_due(state.high_since_s, HIGH_FOR_S, state.last_up_s, PAUSE_UP_S, now_s) and ready <= target < most:
        up = replace(state, target=target + 1, last_up_s=now_s, high_since_s=None, low_since_s=None)
        return up, "one more: {load.waiting} requests wait on {ready} ready, more than {scaling.queue_target} each"
    last_change_s = max((t for t in (state.last_up_s, state.last_down_s) if t is not None), default=None)
    if _is_due(state.low_since_s, LOW_FOR_S, last_change_s, PAUSE_DOWN_S, now_s) and target > max(least, 1):
        down = replace(state, target=target - 1, last_down_s=now_s, low_since_s=None)
        return down, "one less: {load.inflight} requests in flight fit one replica less at half use"
    return state, ""


def _is_due(since_s: float | None, for_s: float, last_s: float | None, pause_s: float, now_s: float) -> bool:
    return since_s is not None and now_s - since_s >= for_s and (last_s is None or now_s - last_s >= pause_s)
