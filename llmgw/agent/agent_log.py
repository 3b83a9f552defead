"""The agent's own last log lines, kept in memory for `ctl logs` (P-61).

Given to `obs.log.configure` as its stream: what is logged goes on to the real stream and stays here.
"""

from collections import deque
from typing import TextIO

KEPT_LINES = 5000
_LINE_CHARS = 4096


class AgentLog:
    """A text stream that passes everything on to `stream` and remembers its last 5000 whole lines."""

    def __init__(self, stream: TextIO, keep: int = KEPT_LINES) -> None:
        self._stream = stream
        self._lines: deque[str] = deque(maxlen=keep)
        self._open = ""

    def write(self, text: str) -> int:
        """Pass text on and keep its finished lines."""
        *whole, self._open = (self._open + text).split("\n")
        self._lines.extend(line[:_LINE_CHARS] for line in whole)
        self._open = self._open[-_LINE_CHARS:]
        return self._stream.write(text)

    def flush(self) -> None:
        """Flush the real stream."""
        self._stream.flush()

    def tail(self, lines: int) -> list[str]:
        """Return the last lines, oldest first."""
        return list(self._lines)[-lines:] if lines > 0 else []
