"""A model definition: what 23 section 1 lets an operator write, as structs that are schema and documentation at once.

`decode_model` checks shapes only (types, unknown keys, durations) and fills in every default that follows from the
definition itself. What needs other models, engines or words to be judged is `policy.catalog`'s (L-1..L-11).
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from llmgw.config.duration import Seconds, parse_duration_s, render_duration
from llmgw.config.load import is_duration, plain_sentence
from llmgw.config.refusal import Refused

MULTI_GPU_ENGINES = frozenset({"vllm", "sglang", "trtllm"})
"""Engines whose tp x pp must equal the GPUs of a replica (L-7)."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table inside a definition; an unknown key is an error naming its path."""


class Adapter(Part, frozen=True):
    """A LoRA adapter clients ask for by its name."""

    name: Annotated[str, Meta(description="Name clients use.")]
    source: Annotated[str, Meta(description="Where its weights are; the forms of a model's source.")]
    scale: Annotated[float, Meta(description="Strength with which it is applied.")] = 1.0


class ScheduleWindow(Part, frozen=True, rename={"start": "from", "end": "to"}):
    """Other scaling bounds for a part of the week, in `control.timezone`."""

    days: Annotated[tuple[str, ...], Meta(description="`mon`..`sun`; every day when empty.")] = ()
    start: Annotated[str, Meta(description="`HH:MM` it opens.")] = "00:00"
    end: Annotated[str, Meta(description="`HH:MM` it closes; not after `from`: the next day.")] = "00:00"
    min: Annotated[int, Meta(description="Replicas kept running inside it.")] = 0
    max: Annotated[int, Meta(description="Most replicas inside it.")] = 0


class Scaling(Part, frozen=True):
    """How many replicas run."""

    min: Annotated[int, Meta(description="Kept running; 0 = loaded on demand.")] = 1
    max: Annotated[int, Meta(description="Most it scales to; max(min, 1) when absent; 0 stops the model.")] = 1
    idle_timeout: Annotated[Seconds, Meta(description="Unused time after which a model with min 0 unloads.")] = 900.0
    schedule: Annotated[tuple[ScheduleWindow, ...], Meta(description="Windows; the first that matches wins.")] = ()
    prewarm: Annotated[Seconds, Meta(description="How long before a window its min is raised.")] = 0.0
    queue_target: Annotated[int, Meta(description="Waiting requests per ready replica that ask for one more.")] = 4


class Profile(Part, frozen=True):
    """One way to run a model. A model lists them best first."""

    name: Annotated[str, Meta(description="Unique within the model.")]
    engine: Annotated[str, Meta(description="`llamacpp`, `vllm`, `sglang`, `trtllm` or `sim`.")]
    gpu_class: Annotated[str, Meta(description="Exact class of GPU; empty = on the CPU.")] = ""
    gpus_per_node: Annotated[int, Meta(description="GPUs a replica takes on each of its nodes; tp x pp / nodes.")] = 0
    nodes: Annotated[int, Meta(description="Nodes one replica spans.")] = 1
    tp: Annotated[int, Meta(description="Tensor parallel ranks.")] = 1
    pp: Annotated[int, Meta(description="Pipeline parallel ranks.")] = 1
    min_memory_gb: Annotated[
        float, Meta(description="Host memory reserved per node; 0 = file size x 1.2 + 1 when known, else 4.")
    ] = 0.0
    cpu_cores: Annotated[int, Meta(description="Cores reserved per node; 4 on the CPU, 1 per GPU when absent.")] = 0
    args: Annotated[tuple[str, ...], Meta(description="Further engine arguments, checked.")] = ()
    env: Annotated[Mapping[str, str], Meta(description="Further environment, checked.")] = {}
    node_selector: Annotated[Mapping[str, str], Meta(description="Labels a node must have exactly.")] = {}
    fabric: Annotated[str, Meta(description="The fabric a multi-node replica must use; empty = any one.")] = ""
    keep_within: Annotated[str, Meta(description="`rack`, `row`, `room` or `site` of a multi-node replica.")] = ""
    power_watts: Annotated[float, Meta(description="A replica's draw; 0 = derived.")] = 0.0
    kv_events: Annotated[bool, Meta(description="Publish KV cache events (vllm).")] = False
    ready_timeout: Annotated[Seconds, Meta(description="Longest wait until it answers; 0 = the agent's.")] = 0.0


class SLO(Part, frozen=True):
    """What the operator promises, for display and alerts."""

    ttft_p99: Annotated[Seconds, Meta(description="Time to first token, 99th percentile.")] = 0.0
    tpot_p99: Annotated[Seconds, Meta(description="Time per output token, 99th percentile.")] = 0.0


class Guard(Part, frozen=True):
    """How a guardrails judge is asked."""

    format: Annotated[str, Meta(description="`qwen3guard`, `llamaguard3`, `shieldgemma` or `json`.")] = ""
    categories: Annotated[tuple[str, ...], Meta(description="Categories it is asked about; its own when empty.")] = ()


class EvalGate(Part, frozen=True):
    """A standing gate of updates and promotions."""

    suite: Annotated[str, Meta(description="The evaluation suite that judges.")]
    min_score: Annotated[float, Meta(description="Lowest score that passes.")] = 0.0


class Resources(Part, frozen=True):
    """Overrides of every profile's reservation; 0 leaves the profile's."""

    min_memory_gb: Annotated[float, Meta(description="Host memory reserved per node; 0 = the profile's.")] = 0.0
    cpu_cores: Annotated[int, Meta(description="Cores reserved per node; 0 = the profile's.")] = 0


class Origin(Part, frozen=True):
    """Where the weights came from; set by llmgw."""

    registry: Annotated[str, Meta(description="Registry it was taken from.")] = ""
    repo: Annotated[str, Meta(description="Repository there.")] = ""
    revision: Annotated[str, Meta(description="Revision of it.")] = ""
    files: Annotated[tuple[str, ...], Meta(description="Files taken.")] = ()
    sha256: Annotated[str, Meta(description="Digest of the weights.")] = ""


class Canary(Part, frozen=True):
    """On `MODEL-canary`; set by llmgw."""

    of: Annotated[str, Meta(description="The model it stands in for.")]
    share: Annotated[int, Meta(description="Percent of that model's requests sent to it.")] = 0


class ModelDefinition(Part, frozen=True, rename={"klass": "class"}):
    """One entry of the catalog, defaults filled in."""

    name: Annotated[str, Meta(description="Letters, digits, `.`, `_`, `-`, at most 63; unique in the catalog.")]
    description: Annotated[str, Meta(description="For people.")] = ""
    aliases: Annotated[tuple[str, ...], Meta(description="Other names clients may use.")] = ()
    source: Annotated[str, Meta(description="Where the weights are (docs/models.md).")] = ""
    profiles: Annotated[tuple[Profile, ...], Meta(description="Ways to run it, best first.")] = ()
    scaling: Annotated[Scaling, Meta(description="How many replicas run.")] = Scaling()
    klass: Annotated[str, Meta(description="`critical`, `standard` or `opportunistic`.")] = "standard"
    owner: Annotated[str, Meta(description="`org:X`, `team:X/Y`, `project:X/Y/Z`; empty = the cluster.")] = ""
    capabilities: Annotated[tuple[str, ...], Meta(description="What it can do.")] = ()
    adapters: Annotated[tuple[Adapter, ...], Meta(description="LoRA adapters.")] = ()
    max_loaded_adapters: Annotated[int, Meta(description="vllm: load up to N adapters on demand.")] = 0
    fallbacks: Annotated[tuple[str, ...], Meta(description="Models tried when this one has no capacity.")] = ()
    external: Annotated[dict[str, Any] | None, Meta(description="Served by an outside provider.")] = None
    slo: Annotated[SLO | None, Meta(description="What is promised.")] = None
    role: Annotated[str, Meta(description="`guard` for a guardrails judge.")] = ""
    guard: Annotated[Guard | None, Meta(description="How a judge is asked.")] = None
    eval: Annotated[EvalGate | None, Meta(description="Standing gate.")] = None
    resources: Annotated[Resources | None, Meta(description="Overrides of every profile's reservation.")] = None
    origin: Annotated[Origin | None, Meta(description="Set by llmgw.")] = None
    canary: Annotated[Canary | None, Meta(description="Set by llmgw.")] = None

    def profile(self, name: str) -> Profile | None:
        """Return the profile of that name, if there is one."""
        return next((p for p in self.profiles if p.name == name), None)


def decode_model(raw: Any, where: str = "model") -> ModelDefinition:
    """Turn plain data into a definition with defaults filled. `where` begins the sentence of a Refused(400)."""
    if not isinstance(raw, Mapping):
        raise Refused(400, f"{where}: a definition is a table of keys, not {type(raw).__name__}")
    table = dict(cast(Mapping[str, Any], raw))
    name = table.get("name")
    here = f"{where} {name!r}" if isinstance(name, str) and len(name) < 100 else where
    try:
        if isinstance(table.get("adapters"), str):
            table["adapters"] = adapters_from_line(table["adapters"])
        plain = _in_seconds(table, ModelDefinition, "")
        return _filled(msgspec.convert(plain, ModelDefinition), plain)
    except msgspec.ValidationError as error:
        raise Refused(400, f"{here}: {plain_sentence(str(error))}") from None
    except Refused as refusal:
        raise Refused(refusal.status, f"{here}: {refusal.sentence}") from None


def adapters_from_line(text: str) -> list[dict[str, Any]]:
    """Read the one-line form `name=source[@scale]`, comma separated. An `@` that no number follows is the source's."""
    out: list[dict[str, Any]] = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, source = item.partition("=")
        if not equals or not name.strip() or not source.strip():
            raise Refused(400, f"adapters: {item!r} is not `name=source` or `name=source@scale`")
        bare, at, scale = source.rpartition("@")
        number = _number(scale) if at and bare else None
        out.append({"name": name.strip(), "source": (source if number is None else bare).strip()})
        if number is not None:
            out[-1]["scale"] = number
    return out


def definition_data(definition: ModelDefinition) -> dict[str, Any]:
    """Return a definition as plain data: every default filled in, durations as C-10 writes them, absent parts left out."""
    return cast(dict[str, Any], _plain(definition))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _filled(definition: ModelDefinition, raw: dict[str, Any]) -> ModelDefinition:
    """Fill in the defaults that depend on other keys (1.1, 1.2, L-9). `raw` tells what was written."""
    profiles = tuple(
        _filled_profile(p, given) for p, given in zip(definition.profiles, raw.get("profiles", ()), strict=False)
    )
    is_cpu_guard = definition.role == "guard" and all(not p.gpu_class for p in profiles)
    given_scaling: dict[str, Any] = raw.get("scaling") or {}
    if is_cpu_guard:
        given_scaling = {"min": 2, "max": max(2, definition.scaling.min), **given_scaling}
        scaling = msgspec.structs.replace(definition.scaling, min=given_scaling["min"], max=given_scaling["max"])
    else:
        scaling = definition.scaling
    klass = "critical" if is_cpu_guard and "class" not in raw else definition.klass
    return msgspec.structs.replace(
        definition, profiles=profiles, scaling=_filled_scaling(scaling, given_scaling), klass=klass
    )


def _filled_scaling(scaling: Scaling, given: dict[str, Any]) -> Scaling:
    most = scaling.max if "max" in given else max(scaling.min, 1)
    windows = tuple(
        _filled_window(w, raw, scaling.min, most)
        for w, raw in zip(scaling.schedule, given.get("schedule", ()), strict=False)
    )
    return msgspec.structs.replace(scaling, max=most, schedule=windows)


def _filled_window(window: ScheduleWindow, given: dict[str, Any], least: int, most: int) -> ScheduleWindow:
    """A window that names no min or max keeps the scaling's own."""
    low = window.min if "min" in given else least
    return msgspec.structs.replace(window, min=low, max=window.max if "max" in given else max(most, low))


def _filled_profile(profile: Profile, given: dict[str, Any]) -> Profile:
    tp, nodes, pp = profile.tp, profile.nodes, profile.pp
    gpus = profile.gpus_per_node
    if "gpus_per_node" not in given:
        gpus = max(tp * pp // nodes, 1) if profile.gpu_class and nodes > 0 else 0
    elif "tp" not in given and profile.engine in MULTI_GPU_ENGINES and pp > 0:
        tp = max(gpus * nodes // pp, 1)
    cores = profile.cpu_cores if "cpu_cores" in given else (gpus if profile.gpu_class else 4)
    return msgspec.structs.replace(profile, gpus_per_node=gpus, tp=tp, cpu_cores=cores)


def _in_seconds(raw: Any, kind: Any, path: str) -> Any:
    """Return a copy of `raw` in which every duration of `kind`, at any depth, is a number of seconds."""
    if isinstance(raw, (list, tuple)):
        return [_in_seconds(item, kind, f"{path[:-1]}[{i}].") for i, item in enumerate(cast(list[Any], raw))]
    if not isinstance(raw, Mapping):
        return raw
    out: dict[str, Any] = dict(cast(Mapping[str, Any], raw))
    for field in msgspec.structs.fields(kind):
        if field.encode_name in out:
            out[field.encode_name] = _field_in_seconds(out[field.encode_name], field, path + field.encode_name)
    return out


def _field_in_seconds(value: Any, field: msgspec.structs.FieldInfo, path: str) -> Any:
    if is_duration(field.type):
        return parse_duration_s(value, path)
    part = _part_in(field.type)
    return value if part is None else _in_seconds(value, part, path + ".")


def _part_in(annotation: Any) -> type[Part] | None:
    """Return the Part inside `Annotated[...]`, `tuple[X, ...]` or `X | None`."""
    if _is_part(annotation):
        return annotation
    inner = getattr(annotation, "__origin__", None) if hasattr(annotation, "__metadata__") else None
    for candidate in (inner, *getattr(annotation, "__args__", ())):
        found = None if candidate is None else _part_in(candidate)
        if found is not None:
            return found
    return None


def _is_part(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Part)


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        out: dict[str, Any] = {}
        for field in msgspec.structs.fields(value):
            item = getattr(value, field.name)
            if item is not None:
                out[field.encode_name] = render_duration(item) if is_duration(field.type) else _plain(item)
        return out
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in cast(list[Any], value)]
    return value
