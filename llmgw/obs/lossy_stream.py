"""A stream for logs, which loses what it cannot write.

Where the log lies on a disk that is full, or in a pipe nobody reads any more, writing raises. Raised on, it ended
whoever logged: a request, and with it the whole server, at the very moment its operator needed it.
"""

from typing import TextIO


class LossyStream:
    """Writes whole lines to `out`, each flushed. `lost` is how many were lost since the last that was written."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.lost = 0

    def write(self, line: str) -> None:
        """Write a line with its end, or count it."""
        try:
            self._out.write(line)
            self._out.flush()
            self.lost = 0
        except (OSError, ValueError):  # ValueError: it is closed
            self.lost += 1

    def flush(self) -> None:
        """Do nothing: every line was flushed."""
