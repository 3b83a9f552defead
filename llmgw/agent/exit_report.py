"""How an engine's end is told: code or signal, and the line of its output that most likely says why (E-135). Pure."""

import re
import signal
from collections.abc import Sequence

LAST_LINES = 20
"""Lines of output a failure carries; 10 when the launch itself failed (20 section 4.7)."""

_TELLING = re.compile(
    r"out of memory|cudaMalloc failed|CUDA error|ErrorOutOfDeviceMemory|failed to allocate|OutOfMemoryError",
    re.IGNORECASE,
)
_LINE_CHARS = 500


def exit_sentence(exit_code: int, last_output: Sequence[str]) -> str:
    """Say how an engine ended. A line about the GPU's memory or a CUDA error is quoted first."""
    ended = _ended(exit_code)
    telling = next((line for line in reversed(last_output) if _TELLING.search(line)), "")
    if telling:
        return f"{telling.strip()[:_LINE_CHARS]} (the engine {ended})"
    last = next((line for line in reversed(last_output) if line.strip()), "")
    return f"the engine {ended}; its last line: {last.strip()[:_LINE_CHARS]}" if last else f"the engine {ended}"


def _ended(exit_code: int) -> str:
    if exit_code < 0:
        return "ended (started by an earlier run of the agent, so its exit status is not known)"
    if exit_code > 128:
        try:
            return f"was killed by {signal.Signals(exit_code - 128).name}"
        except ValueError:
            pass
    return f"exited with status {exit_code}"
