"""Whether a model may enter the catalog: rules L-1 to L-10, judged before anything is written.

Shapes are `config.model`'s; what a profile may ask of its engine is `engine_rules`' and is looked at again by the
agent. A definition that is sound but needs a part of llmgw that is not built yet is refused with 501 and the key.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import NamedTuple, cast

from msgspec.structs import replace

from llmgw.config.model import ModelDefinition, Part, Profile
from llmgw.config.refusal import Refused
from llmgw.policy import engine_rules
from llmgw.policy.schedule import DAYS, minutes
from llmgw.policy.source import source_fault

CLASSES = ("critical", "standard", "opportunistic")
"""Whose capacity gives way, the firmest first."""

CAPABILITIES = ("tools", "vision", "embeddings", "rerank", "audio", "structured", "context")
GUARD_FORMATS = ("qwen3guard", "llamaguard3", "shieldgemma", "json")
KEEP_WITHIN = ("rack", "row", "room", "site")
LOCATION_KEYS = tuple(f"llmgw.io/{key}" for key in ("site", "room", "row", "rack", "pdu"))
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_OWNER = re.compile(r"(org:[^/]+|team:[^/]+/[^/]+|project:[^/]+/[^/]+/[^/]+)\Z")
_LONGEST_ARGUMENT = 4096
_MOST_ENTRIES = 1024
_MOST = 65_536
_MOST_GB = 1_000_000
_MOST_WATTS = 1_000_000
_LONGEST_S = 366 * 86_400


class Fault(NamedTuple):
    """Why a definition is refused: 400 wrong, 409 clashes with another, 501 needs what is not built yet."""

    status: int
    sentence: str


def check(definition: ModelDefinition, others: Mapping[str, ModelDefinition]) -> ModelDefinition:
    """Return the definition as it is kept (arguments in the engine's own form). Raises Refused.

    `others`: every other model of the catalog by name.
    """
    fault = next(faults(definition, others), None)
    if fault:
        raise Refused(fault.status, f"model {definition.name[:80]!r}: {fault.sentence}")
    kept = tuple(replace(p, args=tuple(engine_rules.separated(p.engine, p.args))) for p in definition.profiles)
    return replace(definition, profiles=kept)


def check_all(definitions: Sequence[ModelDefinition]) -> tuple[ModelDefinition, ...]:
    """Check the declared models together, so that one may name another that comes later. Raises Refused."""
    names: dict[str, ModelDefinition] = {}
    for definition in definitions:
        if definition.name in names:
            raise Refused(409, f"model {definition.name!r} is defined twice")
        names[definition.name] = definition
    return tuple(check(d, {n: o for n, o in names.items() if n != d.name}) for d in definitions)


def faults(definition: ModelDefinition, others: Mapping[str, ModelDefinition]) -> Iterator[Fault]:
    """Yield everything that is wrong, what a reader should mend first coming first."""
    for rules in (_bound_faults, _name_faults):
        for sentence in rules(definition):
            yield Fault(400, sentence)
    for sentence in _clashes(definition, others):
        yield Fault(409, sentence)
    for rules in (_word_faults, _scaling_faults, _external_faults, _source_faults, _role_faults, _adapter_faults):
        for sentence in rules(definition):
            yield Fault(400, sentence)
    for sentence in _fallback_faults(definition, others):
        yield Fault(400, sentence)
    for place, profile in enumerate(definition.profiles):
        for sentence in _profile_faults(definition, profile):
            yield Fault(400, f"profiles[{place}] {profile.name!r}: {sentence}")
    yield from _not_built(definition)


def warnings(definition: ModelDefinition) -> tuple[str, ...]:
    """Return what is allowed but should be known."""
    if definition.role == "guard" and definition.scaling.min < 2:
        return (f"{definition.name} is a judge with fewer than two replicas: while its node is down nothing is judged",)
    return ()


def called(definition: ModelDefinition) -> tuple[str, ...]:
    """Return every name by which clients may ask for something of this model."""
    return (definition.name, *definition.aliases, *(a.name for a in definition.adapters))


def _bound_faults(definition: ModelDefinition) -> Iterator[str]:
    """Refuse what is too large to be meant, before anything counts it.

    Beyond these an agent would take the start command for a broken message and end its link, again at each try, and a
    number above 64 bits could not even be sent.
    """
    yield from _beyond(definition, "")
    yield from _beyond(definition.scaling, "scaling: ")
    for place, window in enumerate(definition.scaling.schedule[:_MOST_ENTRIES]):
        yield from _beyond(window, f"scaling.schedule[{place}]: ")
    if definition.resources:
        yield from _beyond(definition.resources, "resources: ")
    if definition.slo:
        yield from _beyond(definition.slo, "slo: ")
    for place, profile in enumerate(definition.profiles[:_MOST_ENTRIES]):
        yield from _beyond(profile, f"profiles[{place}] {profile.name[:80]!r}: ")


_BOUNDS = {"min_memory_gb": _MOST_GB, "power_watts": _MOST_WATTS} | dict.fromkeys(
    ("idle_timeout", "prewarm", "ready_timeout", "ttft_p99", "tpot_p99"), _LONGEST_S
)


def _beyond(part: Part, here: str) -> Iterator[str]:
    """Yield a sentence for each number and each list directly in `part` that is beyond its bound."""
    for key in part.__struct_fields__:
        value = getattr(part, key)
        if isinstance(value, tuple | Mapping) and len(cast("Sized", value)) > _MOST_ENTRIES:
            yield f"{here}{key} has more than {_MOST_ENTRIES} entries"
        elif isinstance(value, int | float) and value > _BOUNDS.get(key, _MOST):
            most = "366 days" if _BOUNDS.get(key) == _LONGEST_S else _BOUNDS.get(key, _MOST)
            yield f"{here}{key} is at most {most}"


def _name_faults(definition: ModelDefinition) -> Iterator[str]:
    for what, names in (
        ("name", (definition.name,)),
        ("alias", definition.aliases),
        ("adapter", tuple(a.name for a in definition.adapters)),
        ("profile", tuple(p.name for p in definition.profiles)),
    ):
        for name in names:
            if not _NAME.match(name):
                yield (
                    f"{what} {name[:80]!r} is not a name; use letters, digits, `.`, `_`, `-`, "
                    "beginning with a letter or digit, at most 63"
                )
    names = called(definition)
    for name in (n for n, times in Counter(names).items() if times > 1):
        yield f"{name!r} is used twice among its name, aliases and adapters"
    profiles = [p.name for p in definition.profiles]
    if len(set(profiles)) < len(profiles):
        yield "two profiles have one name"
    if len(definition.description) > _LONGEST_ARGUMENT:
        yield f"description is longer than {_LONGEST_ARGUMENT} characters"


def _clashes(definition: ModelDefinition, others: Mapping[str, ModelDefinition]) -> Iterator[str]:
    taken = {name: other.name for other in others.values() for name in called(other)}
    for name in called(definition):
        if name in taken:
            owner = taken[name]
            yield f"the name {name!r} is taken" + (f" by model {owner!r}" if owner != name else " by another model")


def _word_faults(definition: ModelDefinition) -> Iterator[str]:
    if definition.klass not in CLASSES:
        yield f"class {definition.klass!r} is not one of {', '.join(CLASSES)}"
    for word in definition.capabilities:
        if word not in CAPABILITIES:
            yield f"capability {word!r} is not one of {', '.join(CAPABILITIES)}"
    if definition.owner and not _OWNER.match(definition.owner):
        yield f"owner {definition.owner!r} is not org:X, team:X/Y or project:X/Y/Z"
    if definition.origin or definition.canary:
        yield "origin and canary are set by llmgw and may not be written"
    resources = definition.resources
    if resources and (resources.cpu_cores < 0 or not _is_size(resources.min_memory_gb)):
        yield "resources: cpu_cores and min_memory_gb are zero or more"


def _scaling_faults(definition: ModelDefinition) -> Iterator[str]:
    scaling = definition.scaling
    if scaling.min < 0 or scaling.max < 0:
        yield "scaling: min and max are zero or more"
    if scaling.max != 0 and scaling.max < scaling.min:
        yield f"scaling: max {scaling.max} is less than min {scaling.min}; only max 0 may be, and it stops the model"
    if scaling.queue_target < 1:
        yield "scaling: queue_target is at least 1"
    for place, window in enumerate(scaling.schedule):
        here = f"scaling.schedule[{place}]"
        for day in window.days:
            if day not in DAYS:
                yield f"{here}: day {day!r} is not one of {', '.join(DAYS)}"
        for key, text in (("from", window.start), ("to", window.end)):
            if minutes(text) is None:
                yield f"{here}: {key} {text!r} is not a time of day like 08:30"
        if window.start == window.end:
            yield f"{here}: from and to are equal, so the window is empty"
        if window.min < 0 or window.min > window.max:
            yield f"{here}: min {window.min} and max {window.max} must be 0 <= min <= max"


def _external_faults(definition: ModelDefinition) -> Iterator[str]:
    given = {
        "profiles": definition.profiles,
        "adapters": definition.adapters,
        "role": definition.role,
        "eval": definition.eval,
        "source": definition.source,
    }
    if definition.external is not None:
        for key, value in given.items():
            if value:
                yield f"external and {key} exclude each other: an outside provider runs the model"
    elif not definition.profiles:
        yield "profiles is empty; a model needs at least one way to run"


def _source_faults(definition: ModelDefinition) -> Iterator[str]:
    if definition.external is None:
        fault = source_fault(definition.source)
        if fault:
            yield fault


def _role_faults(definition: ModelDefinition) -> Iterator[str]:
    if definition.role not in ("", "guard"):
        yield f"role {definition.role!r} is not known; the only role is guard"
    if definition.role != "guard":
        if definition.guard:
            yield "guard is given but role is not guard"
        return
    if not definition.guard or not definition.guard.format:
        yield "role guard needs guard.format"
    elif definition.guard.format not in GUARD_FORMATS:
        yield f"guard.format {definition.guard.format!r} is not one of {', '.join(GUARD_FORMATS)}"
    if definition.scaling.min == 0:
        yield "a guard is never loaded on demand: scaling.min is at least 1"
    if definition.fallbacks or definition.aliases:
        yield "a guard has neither fallbacks nor aliases: clients cannot name it"


def _adapter_faults(definition: ModelDefinition) -> Iterator[str]:
    for place, adapter in enumerate(definition.adapters):
        fault = source_fault(adapter.source)
        if fault:
            yield f"adapters[{place}] {adapter.name!r}: {fault}"
        if not math.isfinite(adapter.scale):
            yield f"adapters[{place}] {adapter.name!r}: scale is not a finite number"
    engines = {p.engine for p in definition.profiles}
    if definition.adapters and engines & {"sglang", "trtllm"}:
        yield "adapters are served by llamacpp and vllm only, and a profile uses " + ", ".join(
            sorted(engines & {"sglang", "trtllm"})
        )
    if definition.max_loaded_adapters < 0:
        yield "max_loaded_adapters is zero or more"
    if definition.max_loaded_adapters > 0 and not definition.adapters:
        yield "max_loaded_adapters is given without adapters"
    if definition.max_loaded_adapters > 0 and "vllm" not in engines:
        yield "max_loaded_adapters needs a vllm profile: only vllm loads adapters while it runs"


def _fallback_faults(definition: ModelDefinition, others: Mapping[str, ModelDefinition]) -> Iterator[str]:
    for name in definition.fallbacks:
        if name in called(definition):
            yield f"fallback {name!r} is the model itself"
        elif name not in others and "/" not in name:
            yield f"fallback {name!r} is not a model of this catalog"
        elif name in others and others[name].role == "guard":
            yield f"fallback {name!r} is a guard, and guards answer no client"


def _profile_faults(definition: ModelDefinition, profile: Profile) -> Iterator[str]:
    unknown = engine_rules.unknown_engine(profile.engine)
    if unknown:
        yield unknown
        return
    yield from _size_faults(profile)
    if is_mig(profile.gpu_class) and max(profile.tp, profile.pp, profile.gpus_per_node, profile.nodes) > 1:
        yield MIG_ALONE
    shape = engine_rules.shape_fault(_shape(definition, profile))
    if shape:
        yield shape.removeprefix(f"profile {profile.name}: ")
    if profile.kv_events and profile.engine != "vllm":
        yield f"kv_events is vllm's only; {profile.engine} has none"
    if profile.keep_within and profile.keep_within not in KEEP_WITHIN:
        yield f"keep_within {profile.keep_within!r} is not one of {', '.join(KEEP_WITHIN)}"
    for key in profile.node_selector:
        if key.startswith("llmgw.io/") and key not in LOCATION_KEYS:
            yield f"node_selector: {key!r} is not one of {', '.join(LOCATION_KEYS)}"
    for text in (*profile.args, *profile.env, *profile.env.values()):
        if len(text) > _LONGEST_ARGUMENT or "\0" in text:
            yield f"args and env hold text without NUL, at most {_LONGEST_ARGUMENT} characters each"
    unsafe = engine_rules.unsafe_argument(profile.engine, profile.args) or engine_rules.unsafe_environment(
        profile.env, defining=True
    )
    if unsafe:
        yield unsafe


MIG_ALONE = (
    "a MIG class takes tp, pp, gpus_per_node and nodes of 1: "
    "CUDA opens one instance per process and instances do not reach one another"
)


def is_mig(gpu_class: str) -> bool:
    """Return whether a class names MIG instances (D-22)."""
    return "-mig-" in gpu_class


def _shape(definition: ModelDefinition, profile: Profile) -> engine_rules.ProfileShape:
    return engine_rules.ProfileShape(
        name=profile.name,
        engine=profile.engine,
        model_path=definition.source,
        gpu_class=profile.gpu_class,
        nodes=profile.nodes,
        gpus_per_node=profile.gpus_per_node,
        tp=profile.tp,
        pp=profile.pp,
    )


def _size_faults(profile: Profile) -> Iterator[str]:
    for key in ("nodes", "tp", "pp"):
        if getattr(profile, key) < 1:
            yield f"{key} is at least 1"
    if profile.gpus_per_node < 0 or profile.cpu_cores < 0:
        yield "gpus_per_node and cpu_cores are zero or more"
    if not _is_size(profile.min_memory_gb):
        yield "min_memory_gb is zero or more"
    if not _is_size(profile.power_watts):
        yield "power_watts is zero or more"
    if profile.gpus_per_node > 0 and not profile.gpu_class:
        yield "gpus_per_node is given without a gpu_class"
    if profile.gpu_class and profile.gpus_per_node == 0:
        yield "gpus_per_node 0 leaves a GPU profile without a GPU; leave it out or name how many"


def _is_size(value: float) -> bool:
    return math.isfinite(value) and value >= 0


def _not_built(definition: ModelDefinition) -> Iterator[Fault]:
    """Refuse what is well said but would do nothing yet: silence would be taken for obedience."""
    if definition.external is not None:
        yield Fault(501, "external: models of outside providers come with the providers work")
    if definition.owner:
        yield Fault(501, "owner: capacity quotas come with the tenancy work; leave owner empty")
    if definition.eval:
        yield Fault(501, "eval: gates come with the evaluation work")
    for name in definition.fallbacks:
        if "/" in name:
            yield Fault(501, f"fallbacks: {name!r} names a peer's model; peers come with the federation work")
    for place, profile in enumerate(definition.profiles):
        if profile.nodes > 1:
            yield Fault(501, f"profiles[{place}].nodes: multi-node placement comes with the fabric work")
