"""What shapes an engine's process, as one hash (L-31): where it differs, running replicas are rolled.

Scaling, class, owner, description, slo, power, keep_within, node_selector, min_memory_gb and ready_timeout are left
out on purpose: changing one of them must never restart a model.
"""

import hashlib
import json

from llmgw.config.model import ModelDefinition, Profile


def fingerprint(definition: ModelDefinition, profile: Profile) -> str:
    """Return the SHA-256 hex of the canonical encoding of what the process of this profile is made from."""
    parts = {
        "source": definition.source,
        "engine": profile.engine,
        "gpu_class": profile.gpu_class,
        "nodes": profile.nodes,
        "gpus_per_node": profile.gpus_per_node,
        "tp": profile.tp,
        "pp": profile.pp,
        "args": list(profile.args),
        "env": dict(profile.env),
        "kv_events": profile.kv_events,
        "threads": threads(definition, profile),
        "adapters": [[a.name, a.source, a.scale] for a in definition.adapters],
        "max_loaded_adapters": definition.max_loaded_adapters,
    }
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def cores(definition: ModelDefinition, profile: Profile) -> int:
    """Return the CPU cores a replica reserves on each node, the model's override first."""
    override = definition.resources.cpu_cores if definition.resources else 0
    return override or profile.cpu_cores


def threads(definition: ModelDefinition, profile: Profile) -> int:
    """Return the engine's threads: the reserved cores of a CPU profile, 0 (the engine's own default) with GPUs."""
    return 0 if profile.gpu_class else cores(definition, profile)
