"""The one way a test waits for something outside it: look at the real condition until it holds, with a deadline.

A fixed sleep is either too short on a busy machine or too long on an idle one; nothing else in tests/ sleeps.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PAUSE_S = 0.02


def until(condition: Callable[[], object], within_s: float = 30.0, what: str = "the condition") -> None:
    """Return once `condition()` is true; fail the test when it is not within `within_s` seconds.

    For synchronous tests. An asynchronous one awaits an event, or polls the same way under `anyio.fail_after`.
    """
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {within_s} s"
        time.sleep(PAUSE_S)
