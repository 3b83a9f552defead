"""What an engine says it computes on, read from its output (E-111, E-113).

llama.cpp serves from the CPU without a word when a library of its GPU backend is missing, ten times slower, while its
GPU stays reserved. What it prints while loading tells; that a build prints nothing is common and is no evidence.
"""

import re
from collections.abc import Sequence

from llmgw.wire.agent import Compute

ACCOUNT_LINES = 512
"""How many of an engine's last lines are looked at."""

_OFFLOADED = re.compile(r"offloaded (\d+)/(\d+) layers to GPU")
_USING = re.compile(r"using device ([A-Za-z]+)(\d+) \(([^)]*)\)")
_CAPABILITY = re.compile(r"Device (\d+): (.+?), compute capability (\d+\.\d+)")
_NONE_FOUND = re.compile(r"found 0 (?:CUDA|Vulkan|ROCm) devices|no usable GPU found")


def engine_account(lines: Sequence[str]) -> Compute | None:
    """Return what the engine said it computes on, or None when it said nothing about it."""
    layers = _first(_OFFLOADED, lines)
    devices = _devices(lines)
    none_found = any(_NONE_FOUND.search(line) for line in lines)
    if layers is None and not devices and not none_found:
        return None
    offloaded, total = (int(layers[1]), int(layers[2])) if layers else (0, 0)
    if none_found or (total > 0 and offloaded == 0):
        backend = "CPU"
    else:
        backend = devices[0][0] if devices else ("GPU" if offloaded else "CPU")
    named = [] if backend == "CPU" else [f"{kind}{number}: {name}" for kind, number, name in devices]
    return Compute(backend=backend, devices=named, layers_offloaded=offloaded, layers_total=total)


def cpu_fault(gpu_indices: Sequence[int], account: Compute | None) -> str | None:
    """Return the sentence for a shard placed on GPUs whose engine says it computes on the CPU, or None."""
    if not gpu_indices or account is None or account.backend != "CPU":
        return None
    if account.layers_total:
        why = f"it offloaded {account.layers_offloaded} of {account.layers_total} layers"
    else:
        why = "its GPU backend saw no device it could use"
    placed = ", ".join(str(index) for index in gpu_indices)
    return f"placed on GPU [{placed}] but computing on the CPU: {why}; run `llmgw ctl engine-check` on the node"


def recorded_compute(gpu_indices: Sequence[int], account: Compute | None) -> Compute | None:
    """Return what to report: the engine's account, `CPU` for a shard without GPUs, None when nothing is known (E-113)."""
    if account is not None:
        return account
    return None if gpu_indices else Compute(backend="CPU")


def _first(pattern: re.Pattern[str], lines: Sequence[str]) -> "re.Match[str] | None":
    return next((found for line in lines if (found := pattern.search(line))), None)


def _devices(lines: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return (backend, number, name) of each device once; CUDA names get their compute capability."""
    capability = {found[1]: found[3] for line in lines if (found := _CAPABILITY.search(line))}
    seen: dict[tuple[str, str], str] = {}
    for line in lines:
        found = _USING.search(line)
        if found:
            kind, number, name = found.groups()
            joined = f"{name} ({capability[number]})" if kind == "CUDA" and number in capability else name
            seen.setdefault((kind, number), joined)
    return [(kind, number, name) for (kind, number), name in seen.items()]
