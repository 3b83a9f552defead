"""What `/proc` says about processes: start times, groups, sessions, markers (E-114, E-140). Linux only.

A PID alone names nothing for long: the kernel reuses it. A PID with its start time does, so both are kept and compared.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass

_ZOMBIE = ("Z", "X")


@dataclass(frozen=True)
class ProcessStat:
    """A line of `/proc/<pid>/stat`. `start_ticks` is field 22, in clock ticks since boot; `cpu_ticks` user + system."""

    pid: int
    name: str
    state: str
    group: int
    session: int
    cpu_ticks: int
    start_ticks: int
    resident_pages: int

    @property
    def is_alive(self) -> bool:
        """Return whether it still runs: a zombie holds no memory and no device."""
        return self.state not in _ZOMBIE


def read_stat(pid: int) -> ProcessStat | None:
    """Return a process's stat, or None when there is none (any more)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    return parse_stat(text)


def parse_stat(text: str) -> ProcessStat | None:
    """Parse a stat line. The name may hold spaces and parentheses, so fields count from the last `)`."""
    head, closed, rest = text.rpartition(")")
    fields = rest.split()
    if not closed or len(fields) < 22:
        return None
    pid, _, name = head.partition(" (")
    try:
        cpu = int(fields[11]) + int(fields[12])
        ids = (int(pid), int(fields[2]), int(fields[3]), int(fields[19]), int(fields[21]))
    except ValueError:
        return None
    return ProcessStat(ids[0], name, fields[0], ids[1], ids[2], cpu, ids[3], ids[4])


def processes() -> Iterator[ProcessStat]:
    """Yield every process there is now."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            stat = read_stat(int(entry))
            if stat is not None:
                yield stat


def group_members(leader_pid: int, leader_start_ticks: int) -> list[ProcessStat]:
    """Return the living processes of a shard: those in the group or the session its leader opened.

    When the leader's PID now belongs to a process with another start time, the group ended long ago and the number was
    given away: nothing of the shard is left (a PID is not reused while a group or session of that number exists).
    """
    leader = read_stat(leader_pid)
    if leader is not None and leader.start_ticks != leader_start_ticks:
        return []
    return [stat for stat in processes() if stat.is_alive and leader_pid in (stat.group, stat.session)]


def process_group(pid: int) -> int | None:
    """Return the process group of a PID, or None when unreadable: two unreadable ones are never the same (E-114)."""
    stat = read_stat(pid)
    return stat.group if stat else None


def environment_value(pid: int, name: str) -> str | None:
    """Return one variable a process was started with, or None when unset or not ours to read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            raw = file.read()
    except OSError:
        return None
    wanted = name.encode() + b"="
    for item in raw.split(b"\0"):
        if item.startswith(wanted):
            return item[len(wanted) :].decode("utf-8", "replace")
    return None
