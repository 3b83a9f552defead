"""One line a request, at a price a request can bear.

The general log walks every value through redaction and a chain of processors: 120 us a line, more than everything else
that a gateway does for a small request. An access line needs none of it: its fields are numbers, words of our own and
ids whose alphabet was checked (S-9, X-36), so nothing in it can hold a secret, a line break or a client's text. It looks
the same as the general log's lines, and whoever adds a field here must be able to say the same of it.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from llmgw.obs.lossy_stream import LossyStream

Value = str | int


class AccessLog:
    """Writes access lines to `stream` in the log's format ("text" or "json"); nothing when the level is above info."""

    def __init__(
        self,
        logger: str,
        fmt: str = "text",
        level: str = "info",
        stream: TextIO | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._logger = logger
        self._is_json = fmt == "json"
        self._is_on = level in ("debug", "info")
        self._stream = LossyStream(stream if stream is not None else sys.stderr)
        self._wall = wall
        self._second = -1
        self._second_text = ""

    def __call__(self, message: str, fields: Mapping[str, Value]) -> None:
        """Write one line."""
        if not self._is_on:
            return
        at = self._time()
        if self._stream.lost:
            fields = {**fields, "lost_lines": self._stream.lost}
        if self._is_json:
            line = json.dumps({"time": at, "level": "info", "logger": self._logger, "message": message, **fields})
        else:
            facts = " ".join([f"{name}={value}" if value != "" else f'{name}=""' for name, value in fields.items()])
            line = f"{at} info    {self._logger}: {message} {facts}"
        self._stream.write(line + "\n")

    def _time(self) -> str:
        """Return the time in UTC with microseconds; the part before them is made once a second."""
        now = self._wall()
        second = int(now)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._second_text}.{int((now - second) * 1e6):06d}Z"
