"""Failures of starts: when the next try is due, which node is passed over, and when it ends (L-60..L-63)."""

import msgspec

from llmgw.policy.snapshot import Failures

FIRST_DELAY_S = 5.0
LONGEST_DELAY_S = 300.0
NODE_PASSED_OVER_S = 600.0
CLEARED_AFTER_READY_S = 600.0

INCURABLE = (
    "argument ",
    "variable ",
    "profile ",
    "there is no engine",
    "unsafe args",
    "unsafe env",
    "unknown engine",
    "checksum",
    "the source ",
    "the model file ",
)
"""Beginnings of the sentences an agent says when no retry can help: it fails everywhere alike (L-63)."""


def is_incurable(error: str) -> bool:
    """Return whether a failure is the definition's own, judged by how the agent's sentence begins."""
    _, is_adapter, rest = error.partition(": ") if error.startswith("adapter ") else ("", "", error)
    return (rest if is_adapter else error).lower().startswith(INCURABLE)


def after_failure(
    failures: Failures, now_s: float, *, node: str, error: str, lived_s: float | None, park_after: int
) -> Failures:
    """Return the failures with one more.

    `lived_s` is how long the replica had been ready, None when it never was: one that served for ten minutes starts
    the count anew at 1. `park_after` failures in a row, or one that nothing cures, park the model.
    """
    count = 1 if lived_s is not None and lived_s >= CLEARED_AFTER_READY_S else failures.count + 1
    delay_s = min(FIRST_DELAY_S * 2 ** min(count - 1, 16), LONGEST_DELAY_S)
    nodes = dict(failures.nodes)
    if node:
        nodes[node] = (now_s, error)
    return Failures(
        count=count,
        error=error,
        failed_s=now_s,
        retry_s=now_s + delay_s,
        is_parked=failures.is_parked or count >= park_after or is_incurable(error),
        nodes=nodes,
    )


def after_ready(failures: Failures, ready_since_s: float, now_s: float) -> Failures:
    """Return the failures given a replica ready since then: none once it outlived the last failure by ten minutes.

    One that was ready before that failure says nothing: beside it, another may fail every start. Parking stays.
    """
    has_outlived = ready_since_s >= failures.failed_s and now_s - ready_since_s >= CLEARED_AFTER_READY_S
    return Failures() if failures.count and has_outlived and not failures.is_parked else failures


def fresh(failures: Failures, now_s: float) -> Failures:
    """Return the failures without nodes whose time of being passed over is past."""
    if all(now_s - when < NODE_PASSED_OVER_S for when, _ in failures.nodes.values()):
        return failures
    nodes = {n: (when, why) for n, (when, why) in failures.nodes.items() if now_s - when < NODE_PASSED_OVER_S}
    return msgspec.structs.replace(failures, nodes=nodes)


def passed_over(failures: Failures, node: str, now_s: float) -> str:
    """Return why a node is passed over for this model, "" when it is not."""
    when, why = failures.nodes.get(node, (None, ""))
    if when is None or now_s - when >= NODE_PASSED_OVER_S:
        return ""
    ago_s = max(now_s - when, 0.0)
    ago = f"{ago_s:.0f} s" if ago_s < 60 else f"{ago_s / 60:.0f} min"
    return f"failed here {ago} ago: {why}"
