"""An engine's output: a file it writes itself, read from its end (E-122).

The engine holds the file, not a pipe to the agent: a pipe would break or block it when the agent restarts. So the last
lines are read back from the file, and rotation is copy and truncate: the engine appends on, at the new beginning.
What it writes between the copy and the truncation (microseconds) is lost; nothing else is.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

ROTATE_BYTES = 16 * 1024 * 1024
KEPT_FILES = 3
_BLOCK_BYTES = 64 * 1024
_MOST_READ_BYTES = 8 * 1024 * 1024
_LINE_CHARS = 4096


class ShardLog:
    """The output of one shard, `<logs_dir>/<shard id>.log`, with `.1` and `.2` behind it."""

    def __init__(self, logs_dir: Path, shard_id: str) -> None:
        self.path = logs_dir / f"{shard_id}.log"

    def open_for_engine(self) -> int:
        """Return a descriptor to append to; an earlier run's output moves to `.1`. The caller closes it."""
        if self.path.exists() and self.path.stat().st_size:
            self._shift()
            self.path.rename(self._older(1))
        return os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)

    def rotate(self, limit_bytes: int = ROTATE_BYTES) -> bool:
        """Copy the file aside and empty it once it is larger than `limit_bytes`; return whether it was."""
        try:
            if self.path.stat().st_size <= limit_bytes:
                return False
            self._shift()
            self._copy_aside()
            os.truncate(self.path, 0)
        except FileNotFoundError:
            return False
        return True

    def _copy_aside(self) -> None:
        """Copy to `.1`. On a full disk the output is lost instead: emptying the file is what makes room."""
        try:
            shutil.copyfile(self.path, self._older(1))
        except FileNotFoundError:
            raise
        except OSError:
            self._older(1).unlink(missing_ok=True)

    def tail(self, lines: int) -> list[str]:
        """Return the last lines, oldest first, each cut to 4096 characters; reads 8 MiB at most."""
        found = _last_lines(self.path, lines)
        if len(found) < lines:
            found = _last_lines(self._older(1), lines - len(found)) + found
        return found

    def remove(self) -> None:
        """Delete the files."""
        for path in (self.path, *(self._older(number) for number in range(1, KEPT_FILES))):
            with suppress(FileNotFoundError):
                path.unlink()

    def _older(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _shift(self) -> None:
        for number in range(KEPT_FILES - 1, 1, -1):
            with suppress(FileNotFoundError):
                self._older(number - 1).rename(self._older(number))


def _last_lines(path: Path, count: int) -> list[str]:
    """Read a file backwards until it has `count` lines."""
    if count <= 0:
        return []
    try:
        with path.open("rb") as file:
            raw = _last_bytes(file.fileno(), count)
    except FileNotFoundError:
        return []
    text = raw.decode("utf-8", "replace")
    return [line[:_LINE_CHARS] for line in text.splitlines()[-count:]]


def _last_bytes(fd: int, lines: int) -> bytes:
    at = os.fstat(fd).st_size
    blocks: list[bytes] = []
    seen = newlines = 0
    while at > 0 and newlines <= lines and seen < _MOST_READ_BYTES:
        size = min(_BLOCK_BYTES, at)
        at -= size
        block = os.pread(fd, size, at)
        blocks.append(block)
        seen += size
        newlines += block.count(b"\n")
    return b"".join(reversed(blocks))


def prune_logs(logs_dir: Path, running: frozenset[str], keep: int = 50) -> None:
    """Delete the output of shards that run no longer, but for the `keep` newest."""
    ended = [path for path in logs_dir.glob("*.log") if path.stem not in running]
    ended.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in ended[keep:]:
        ShardLog(logs_dir, path.stem).remove()
