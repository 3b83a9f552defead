"""The machine's own facts, and GPUs from an inventory file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llmgw.agent.facts import LoadMeter, cpu_count, memory_bytes, read_gpus, read_machine
from llmgw.agent.proc import read_stat
from llmgw.agent.process_group import ProcessIdentity
from llmgw.config.refusal import Refused


def test_the_machine_says_who_it_is() -> None:
    machine = read_machine()
    assert machine.hostname == os.uname().nodename and machine.arch == os.uname().machine
    assert machine.memory_total_bytes > 0 and cpu_count() >= 1
    assert memory_bytes("MemTotal: 10 kB\nMemAvailable:  4 kB\n") == (10240, 4096) and memory_bytes("") == (0, 0)


def test_load_is_measured_over_the_time_between_two_looks() -> None:
    own = read_stat(os.getpid())
    assert own is not None
    leader = read_stat(own.session) or own
    meter = LoadMeter()
    shards = {"s": ProcessIdentity(leader.pid, leader.start_ticks, leader.name)}
    first = meter.read(shards, 1.0)
    assert first.shards[0].shard_id == "s" and first.memory_used_bytes > 0
    second = meter.read(shards, 2.0)
    assert 0 <= second.cpu_percent <= 100 and second.shards[0].cpu_cores >= 0
    assert meter.read({}, 3.0).shards == []


def test_gpus_come_from_a_file_in_the_protocols_names(tmp_path: Path) -> None:
    path = tmp_path / "gpus.yaml"
    path.write_text("gpus:\n- {index: 0, uuid: GPU-1, name: X, class: x-24, memory_total_mb: 24000}\n- {index: 1}\n")
    first, second = read_gpus(str(path))
    assert (first.gpu_class, first.memory_total_mb, second.index) == ("x-24", 24000, 1)
    path.write_text("- {index: 0}\n")
    assert len(read_gpus(str(path))) == 1 and read_gpus("") == []
    for wrong in ("- {index: a}\n", "- {index: 0}\n- {index: 0}\n", "x"):
        path.write_text(wrong)
        with pytest.raises(Refused, match=r"gpus\.yaml"):
            read_gpus(str(path))
