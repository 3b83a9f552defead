"""The machine's own facts, for Register and heartbeats. Linux's own files only; what cannot be read is left empty."""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from llmgw.agent.proc import group_members
from llmgw.agent.process_group import ProcessIdentity
from llmgw.config.load import plain_sentence, read_yaml
from llmgw.config.refusal import Refused
from llmgw.wire.agent import GPU, NodeLoad, ShardLoad


@dataclass(frozen=True)
class Machine:
    """What does not change while the agent runs, but for the CPU count (a VM may gain some)."""

    hostname: str
    os: str
    kernel: str
    arch: str
    cpu_model: str
    memory_total_bytes: int


def read_machine() -> Machine:
    """Read who this machine is."""
    names = os.uname()
    return Machine(
        hostname=names.nodename,
        os=_os_name(),
        kernel=names.release,
        arch=names.machine,
        cpu_model=_cpu_model(_read("/proc/cpuinfo")),
        memory_total_bytes=memory_bytes(_read("/proc/meminfo"))[0],
    )


def cpu_count() -> int:
    """Return logical CPUs."""
    return os.cpu_count() or 1


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def _cpu_model(cpuinfo: str) -> str:
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return ""


def memory_bytes(meminfo: str) -> tuple[int, int]:
    """Return total and available bytes of a `/proc/meminfo` text."""
    found = {"MemTotal": 0, "MemAvailable": 0}
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        if name in found:
            found[name] = int(value.split()[0]) * 1024
    return found["MemTotal"], found["MemAvailable"]


def read_gpus(inventory_file: str) -> list[GPU]:
    """Read the node's GPUs from a YAML list in the protocol's own field names. Raises Refused naming file and key."""
    if not inventory_file:
        return []
    raw: Any = read_yaml(inventory_file)
    rows: Any = raw.get("gpus", []) if isinstance(raw, dict) else raw
    try:
        gpus = msgspec.convert(rows, list[GPU])
    except msgspec.ValidationError as error:
        raise Refused(400, f"{inventory_file}: {plain_sentence(str(error))}") from None
    if len({gpu.index for gpu in gpus}) != len(gpus):
        raise Refused(400, f"{inventory_file}: two GPUs have the same index; each needs its own")
    return gpus


class LoadMeter:
    """Measures the machine and each shard's processes; shares of CPU are over the time since the last call."""

    def __init__(self) -> None:
        self._cpu_before = (0, 0)
        self._ticks_before: dict[str, int] = {}
        self._at_before_s = 0.0
        self._ticks_per_s = os.sysconf("SC_CLK_TCK")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    def read(self, shards: Mapping[str, ProcessIdentity], now_s: float) -> NodeLoad:
        """Return the load; `now_s` is a monotonic clock. Reads /proc: call it on a thread."""
        total, available = memory_bytes(_read("/proc/meminfo"))
        load = os.getloadavg()
        return NodeLoad(
            cpu_percent=self._cpu_percent(_read("/proc/stat")),
            load1=round(load[0], 2),
            load5=round(load[1], 2),
            load15=round(load[2], 2),
            memory_total_bytes=total,
            memory_used_bytes=max(total - available, 0),
            memory_available_bytes=available,
            shards=self._shard_loads(shards, now_s),
        )

    def _cpu_percent(self, stat: str) -> float:
        fields = [int(word) for word in stat.partition("\n")[0].split()[1:9]]
        if len(fields) < 5:
            return 0.0
        total, idle = sum(fields), fields[3] + fields[4]
        before_total, before_idle = self._cpu_before
        self._cpu_before = (total, idle)
        passed = total - before_total
        return round(100.0 * (1 - (idle - before_idle) / passed), 1) if passed > 0 else 0.0

    def _shard_loads(self, shards: Mapping[str, ProcessIdentity], now_s: float) -> list[ShardLoad]:
        passed_s, self._at_before_s = now_s - self._at_before_s, now_s
        before, self._ticks_before = self._ticks_before, {}
        loads: list[ShardLoad] = []
        for shard_id, identity in shards.items():
            members = group_members(identity.pid, identity.start_ticks)
            ticks = sum(member.cpu_ticks for member in members)
            self._ticks_before[shard_id] = ticks
            spent = max(ticks - before.get(shard_id, ticks), 0)
            cores = spent / self._ticks_per_s / passed_s if passed_s > 0 else 0.0
            resident = sum(member.resident_pages for member in members) * self._page_bytes
            loads.append(ShardLoad(shard_id=shard_id, cpu_cores=round(cores, 2), memory_rss_bytes=resident))
        return loads


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
