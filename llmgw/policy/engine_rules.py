"""What a profile may ask of an engine: shape, arguments, environment. Pure; checked when a model is defined and again
in the agent before a launch, with the same words (21 sections 1 and 3, X-12..X-14).

An engine's command line is code execution: a flag can load a library, read a file over HTTP, or send prompts to another
machine. Matching the flag's text alone is not enough, because the engines are lenient: `--log_file`, `--trust-remote`
and `-mFILE` all reach an option under another spelling, so names are brought to one form before they are looked up.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from llmgw.policy import engine_flags as flags

ENGINES: tuple[str, ...] = ("llamacpp", "sglang", "sim", "trtllm", "vllm")


class EngineTraits(msgspec.Struct, frozen=True):
    """One row of the table in 21 section 1. `min_capability` is a CUDA compute capability, "" = per build."""

    multi_node: bool
    parallel: bool
    needs_gpu: bool
    min_capability: str
    health_path: str
    metrics_path: str
    key_variable: str


TRAITS: Mapping[str, EngineTraits] = {
    "llamacpp": EngineTraits(False, False, False, "", "/health", "/metrics", "LLAMA_API_KEY"),
    "vllm": EngineTraits(True, True, True, "7.5", "/health", "/metrics", "VLLM_API_KEY"),
    "sglang": EngineTraits(True, True, True, "7.5", "/health", "/metrics", "LLMGW_ENGINE_KEY"),
    "trtllm": EngineTraits(False, True, True, "8.0", "/health", "/prometheus/metrics", "LLMGW_ENGINE_KEY"),
    "sim": EngineTraits(True, True, False, "", "/health", "/metrics", "LLMGW_ENGINE_KEY"),
}


class ProfileShape(msgspec.Struct, frozen=True):
    """The part of a profile that validation looks at. `gpu_class` "" means the profile runs on the CPU."""

    name: str
    engine: str
    model_path: str
    gpu_class: str = ""
    nodes: int = 1
    gpus_per_node: int = 0
    tp: int = 1
    pp: int = 1


def unknown_engine(name: str) -> str | None:
    """Return the sentence for an engine that does not exist (E-2), listing those that do."""
    if name in TRAITS:
        return None
    return f"there is no engine {name!r}; the engines are {', '.join(ENGINES)}"


def shape_fault(profile: ProfileShape) -> str | None:
    """Return why a profile's sizes cannot be run by its engine (E-3, E-46, E-65, E-87), or None."""
    wrong = unknown_engine(profile.engine)
    if wrong:
        return f"profile {profile.name}: {wrong}"
    reason = next(_shape_faults(profile, TRAITS[profile.engine]), None)
    return f"profile {profile.name}: {reason}" if reason else None


def _shape_faults(profile: ProfileShape, traits: EngineTraits) -> Iterator[str]:
    engine, sizes = profile.engine, profile.tp * profile.pp
    if not profile.model_path:
        yield "the model's source is empty"
    if profile.nodes > 1 and not traits.multi_node:
        advice = "; use vllm or sglang for several nodes" if engine == "llamacpp" else "; use vllm or sglang"
        yield f"{engine} runs on one node, not {profile.nodes}{advice}"
    if not traits.parallel and sizes > 1:
        yield (
            f"{engine} has no tensor or pipeline parallelism (tp {profile.tp}, pp {profile.pp}); "
            f"use gpus_per_node: {sizes}, which splits the model by layer"
        )
    if traits.needs_gpu and not profile.gpu_class:
        yield f"{engine} needs a GPU; name a gpu_class"
    held = profile.nodes * profile.gpus_per_node
    if traits.needs_gpu and profile.gpu_class and sizes != held:
        yield f"tp x pp is {sizes} but nodes x gpus_per_node is {held}; they must be equal"
    if engine in ("vllm", "trtllm") and profile.model_path.lower().split("#")[0].endswith(".gguf"):
        yield f"{engine} does not serve GGUF files; use llamacpp"


def gpus_needed(profile: ProfileShape) -> int:
    """Return GPUs one node must give: 0 on the CPU, else gpus_per_node and at least 1 (E-46)."""
    return max(profile.gpus_per_node, 1) if profile.gpu_class else 0


def gpus_fault(profile: ProfileShape, given: int) -> str | None:
    """Return why `given` GPUs are too few for a profile (E-3), or None."""
    needed = gpus_needed(profile)
    if given >= needed:
        return None
    return f"profile {profile.name}: needs {needed} GPUs of class {profile.gpu_class}, {given} given"


def gives(args: Sequence[str], *names: str) -> bool:
    """Return whether `args` set one of the flags `names`, as `--x`, `--x=` or with underscores (E-5)."""
    wanted = {_hyphens(name) for name in names}
    return any(_hyphens(token.partition("=")[0]) in wanted for token in args if token.startswith("-"))


def separated(engine: str, args: Sequence[str]) -> list[str]:
    """Return args as the engine takes them: llama-server knows no `--x=y`, so it becomes two tokens (E-33)."""
    if engine != "llamacpp":
        return list(args)
    out: list[str] = []
    for token in args:
        name, equals, value = token.partition("=")
        out.extend((name, value) if equals and token.startswith("--") else (token,))
    return out


def unsafe_argument(engine: str, args: Sequence[str]) -> str | None:
    """Return the sentence for the first argument a profile may not give (E-30, E-31, E-34), or None."""
    for token in args:
        why = _argument_fault(engine, token)
        if why:
            name = token.partition("=")[0] if token.startswith("-") else token[:40]
            return f"argument {name} is not allowed: it {why}"
    return None


def _argument_fault(engine: str, token: str) -> str | None:
    if token.startswith("@"):
        return "is a response file, whose arguments nobody has checked"
    if not token.startswith("-"):
        return _value_fault(token)
    name, equals, value = token.partition("=")
    return _denied(engine, name) or (_value_fault(value) if equals else None)


def _value_fault(value: str) -> str | None:
    """Paths as values are refused whatever the option (X-14): no option is listed as taking one."""
    if value.strip().lower().startswith(("/", "..", "~", "file:")):
        return "is given a path, and no option a profile may set takes one"
    return None


def _hyphens(name: str) -> str:
    """Bring a flag's name to one spelling: hyphens after the leading dashes."""
    bare = name.lstrip("-")
    return "-" * (len(name) - len(bare)) + bare.replace("_", "-")


def _denied(engine: str, name: str) -> str | None:
    spelled = _hyphens(name.strip())
    if engine in flags.DOTTED:
        spelled = spelled.partition(".")[0]
    table = {**flags.EVERY_ENGINE, **flags.PER_ENGINE.get(engine, {})}
    if spelled in table:
        return table[spelled]
    return _abbreviated(engine, spelled, table) or _glued(engine, spelled, table)


def _abbreviated(engine: str, spelled: str, table: Mapping[str, str]) -> str | None:
    """argparse completes any prefix, from one letter up. E-31 asks for three; no engine has a flag shorter than that."""
    if engine not in flags.ABBREVIATING or spelled in flags.ALLOWED_PREFIXES_OF_DENIED[engine]:
        return None
    if not spelled.lstrip("-"):
        return None
    for flag, why in table.items():
        if flag.startswith(spelled):
            return f"abbreviates {flag}, which {why}"
    return None


def _glued(engine: str, spelled: str, table: Mapping[str, str]) -> str | None:
    """`-mFILE` is `-m FILE` (E-34). llama-server has exact names, so there only what is no name can be glued on."""
    if spelled.startswith("--") or len(spelled) < 3:
        return None
    for flag, why in table.items():
        if flag.startswith("--") or not spelled.startswith(flag):
            continue
        if engine in flags.GLUING or not spelled[len(flag)].isalpha():
            return why
    return None


def unsafe_environment(env: Mapping[str, str], *, defining: bool) -> str | None:
    """Return the sentence for the first variable a profile may not set (E-20..E-24), or None.

    `defining` is True where a model is defined; the agent's check lets the runtime-LoRA switch pass, since the control
    plane puts it into the profile of a model with on-demand adapters.
    """
    for name, value in env.items():
        why = _variable_fault(name.strip().upper(), value, defining)
        if why:
            return f"variable {name.strip() or '(empty name)'} is not allowed: {why}"
    return None


def _variable_fault(name: str, value: str, defining: bool) -> str | None:
    if not name:
        return "it has no name"
    if name in flags.ENV_EXACT:
        return None
    if "=" in name or "\0" in name or "\0" in value:
        return "its name or value holds a character no variable can hold"
    if not name.startswith(flags.ENV_PREFIXES):
        return f"only names beginning with {' '.join(flags.ENV_PREFIXES)} and {' '.join(sorted(flags.ENV_EXACT))} are"
    part = next((part for part in flags.ENV_REFUSED_PARTS if part in name), None)
    if part:
        return f"a name with {part} loads code, moves a path or carries a credential"
    if name == flags.RUNTIME_LORA_VARIABLE and defining:
        return "it follows from max_loaded_adapters; set that"
    return _llama_variable_fault(name, value) if name.startswith("LLAMA_ARG_") else None


def _llama_variable_fault(name: str, value: str) -> str | None:
    """`LLAMA_ARG_<X>` is llama-server's flag by another road (E-23)."""
    suffix = name.removeprefix("LLAMA_ARG_")
    flag = flags.LLAMA_VARIABLE_FLAGS.get(suffix, "--" + suffix.lower().replace("_", "-"))
    why = _denied("llamacpp", flag) or _value_fault(value)
    return f"it is {flag}, and it {why}" if why else None


def loads_adapters_on_demand(env: Mapping[str, str]) -> bool:
    """Return whether a profile loads adapters at run time (E-103): the variable is set and not off."""
    return env.get(flags.RUNTIME_LORA_VARIABLE, "").strip().lower() not in ("", "0", "false")
