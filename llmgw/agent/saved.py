"""What lets an agent find its engines again after its own restart: one file per running shard (E-141).

The file holds the engine's key, so it is 0600 in a directory of 0700; it is written beside itself, synced and renamed,
so a reader sees a whole one or none.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from llmgw.agent.process_group import ProcessIdentity
from llmgw.agent.shard_spec import ShardSpec


class SavedShard(msgspec.Struct, frozen=True, kw_only=True):
    """A shard as it was launched: its spec (key included) and its first process. `was_ready`: it has served."""

    spec: ShardSpec
    pid: int
    start_ticks: int
    command: str
    was_ready: bool = False

    def identity(self) -> ProcessIdentity:
        """Return what its first process is recognised by."""
        return ProcessIdentity(self.pid, self.start_ticks, self.command)


class SavedShards:
    """The directory of saved shards."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, saved: SavedShard) -> None:
        """Write or replace one shard's file."""
        path = self._path(saved.spec.shard_id)
        beside = path.with_suffix(".new")
        with suppress(FileNotFoundError):
            beside.unlink()
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(saved))
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)

    def remove(self, shard_id: str) -> None:
        """Forget one shard."""
        with suppress(FileNotFoundError):
            self._path(shard_id).unlink()

    def read_all(self) -> tuple[list[SavedShard], list[str]]:
        """Return what is saved, and a sentence for each file that could not be read (which is removed)."""
        found: list[SavedShard] = []
        faults: list[str] = []
        for path in sorted(self._directory.glob("*.json")):
            try:
                found.append(msgspec.json.decode(path.read_bytes(), type=SavedShard))
            except (msgspec.MsgspecError, ValueError, OSError) as error:
                faults.append(f"the saved shard {path.name} cannot be read and is forgotten: {error}")
                with suppress(OSError):
                    path.unlink()
        return found, faults

    def _path(self, shard_id: str) -> Path:
        return self._directory / f"{shard_id}.json"
