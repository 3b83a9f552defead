"""Definitions, nodes and replicas for tests of decisions, with what a test does not care about filled in."""

from __future__ import annotations

from typing import Any

from llmgw.config.model import ModelDefinition, decode_model
from llmgw.policy.catalog import check
from llmgw.policy.fingerprint import fingerprint
from llmgw.policy.snapshot import GPUSeen, NodeSeen, ReplicaSeen, Share

GIB = 1024**3


def definition(name: str = "chat", **more: Any) -> ModelDefinition:
    """A checked definition with one CPU profile of 2 cores and 1 GB."""
    raw: dict[str, Any] = {"name": name, "source": "/m.gguf", "profiles": [profile()]}
    return check(decode_model({**raw, **more}), {})


def profile(name: str = "cpu", **more: Any) -> dict[str, Any]:
    """A profile as an operator writes it."""
    sizes = {} if "gpu_class" in more else {"cpu_cores": 2}
    return {"name": name, "engine": "llamacpp", "min_memory_gb": 1, **sizes, **more}


def node(node_id: str, *, gpus: int = 0, klass: str = "l4-22g", **more: Any) -> NodeSeen:
    """A ready node with 16 cores and 64 GiB."""
    fields: dict[str, Any] = {
        "engines": {"llamacpp": "1", "vllm": "1", "sim": "1"},
        "cpu_count": 16,
        "memory_bytes": 64 * GIB,
        "gpus": tuple(GPUSeen(index=i, klass=klass, memory_mb=22_000) for i in range(gpus)),
    }
    return NodeSeen(id=node_id, **{**fields, **more})


def replica(of: ModelDefinition, replica_id: str, node_id: str, phase: str = "ready", **more: Any) -> ReplicaSeen:
    """A replica of the definition's first profile, as the catalog would start it now."""
    best = of.profiles[0]
    fields: dict[str, Any] = {
        "profile": best.name,
        "fingerprint": fingerprint(of, best),
        "shares": (Share(node=node_id, cores=2, memory_mb=1024),),
        "ready_s": 0.0 if phase == "ready" else None,
    }
    return ReplicaSeen(id=replica_id, model=of.name, phase=phase, **{**fields, **more})
