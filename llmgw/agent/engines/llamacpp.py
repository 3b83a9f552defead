"""llama.cpp's `llama-server` (21 section 4.1).

It serves one GGUF file on one node, on the CPU or with its layers split over GPUs. Two of its habits shape this
adapter: it falls back to the CPU without a word when its GPU backend does not load, and `/v1/models` answers without
the key, so a readiness check there proves the name, not the key.
"""

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from llmgw.agent.engines.adapter import CannotStart, Command, FirstToken, engine_environment, profile_fault
from llmgw.agent.shard_spec import ShardSpec
from llmgw.config.agent import LlamacppSettings
from llmgw.policy.engine_rules import TRAITS, gives, separated
from llmgw.wire.agent import GPU, EngineProfile
from llmgw.wire.gguf import HeaderCutShort, NotGGUF, read_header

_VERSION = re.compile(r"^version:\s*(\S+)(?:\s+\((\w+)\))?", re.MULTILINE)
_READ_STEPS_BYTES = (1 << 20, 8 << 20, 64 << 20)

_VULKAN_VARIABLE = "GGML_VK_VISIBLE_DEVICES"


class Llamacpp:
    """Builds llama-server's commands. `settings` is `engines.llamacpp` of agent.yaml."""

    name = "llamacpp"
    health_path = TRAITS["llamacpp"].health_path
    metrics_path = TRAITS["llamacpp"].metrics_path
    falls_back_to_cpu = True

    def __init__(self, settings: LlamacppSettings) -> None:
        self._settings = settings
        self._installed = ""

    def serves_http(self, spec: ShardSpec) -> bool:
        """Every shard does: a replica is one process (E-49)."""
        return True

    def validate(self, profile: EngineProfile, gpus: Sequence[GPU]) -> str | None:
        """Return why this profile cannot run on these GPUs, or None (E-46)."""
        return profile_fault(profile, gpus)

    def use_installed(self, path: str) -> None:
        """Run the build at `path`; "" forgets it."""
        self._installed = path

    def configured(self) -> bool:
        """Return whether `engines.llamacpp.bin` names a program."""
        return bool(self._settings.bin)

    def program(self) -> str | None:
        """The installed build, else `engines.llamacpp.bin`, else `llama-server` on PATH (E-40)."""
        return self._installed or self._settings.bin or shutil.which("llama-server")

    def version_command(self) -> list[str] | None:
        """`llama-server --version`."""
        program = self.program()
        return [program, "--version"] if program else None

    def version_in(self, output: str) -> str | None:
        """Return for example `b10991-1a2b3c4` from "version: 10991 (1a2b3c4)"."""
        found = _VERSION.search(output)
        if not found:
            return None
        number, commit = found.groups()
        return f"b{number}-{commit}" if commit else f"b{number}"

    def device_command(self) -> list[str] | None:
        """`llama-server --list-devices` (E-50)."""
        program = self.program()
        return [program, "--list-devices"] if program else None

    def devices_in(self, output: str) -> list[str]:
        """Return the lines after "Available devices"; log lines before it, blanks and `(none)` are no devices."""
        _, found, after = output.partition("Available devices")
        lines = after.partition("\n")[2].splitlines() if found else []
        return [line.strip() for line in lines if line.strip() not in ("", "(none)")]

    def commands(self, spec: ShardSpec, engine_dir: str) -> list[Command]:
        """Return the one command of a shard, in the order of E-41. Raises CannotStart."""
        program = self.program()
        if not program:
            raise CannotStart("there is no llama-server: none is installed, named in engines.llamacpp.bin, or on PATH")
        model, projector = choose_files(spec.profile.model_path)
        check_model_file(model)
        args = separated(self.name, spec.profile.args)
        command = ["--model", model, "--host", spec.listen_host, "--port", str(spec.http_port), "--metrics"]
        if spec.profile.served_model_name:
            command += ["--alias", spec.profile.served_model_name]
        if projector and not gives(args, "--mmproj", "-mm"):
            command += ["--mmproj", projector]
        command += [*self._tuning(spec, args), *_adapter_flags(spec), *args]
        extra = _vulkan_devices(spec)
        env = engine_environment(spec, engine_dir, TRAITS[self.name].key_variable, extra)
        if not extra:
            env.pop(_VULKAN_VARIABLE, None)
        return [Command("llama-server", program, command, env)]

    def _tuning(self, spec: ShardSpec, args: Sequence[str]) -> list[str]:
        """Slots, offload and threads, each unless the profile gives it (E-43..E-45)."""
        out: list[str] = []
        if not gives(args, "--parallel", "-np"):
            out += ["--parallel", str(self._settings.parallel)]
        if not spec.gpu_indices:
            threads = spec.threads or self._settings.threads or os.cpu_count() or 1
            return out if gives(args, "--threads", "-t") else [*out, "--threads", str(threads)]
        if not gives(args, "--n-gpu-layers", "--gpu-layers", "-ngl"):
            out += ["--n-gpu-layers", "999"]
        if len(spec.gpu_indices) > 1 and not gives(args, "--split-mode", "-sm"):
            out += ["--split-mode", "layer"]
        return out

    def first_token(self, spec: ShardSpec) -> FirstToken | None:
        """One token, or one vector from an engine made for embeddings; a reranker is asked nothing."""
        name, args = spec.profile.served_model_name, spec.profile.args
        if gives(args, "--rerank", "--reranking"):
            return None
        if gives(args, "--embedding", "--embeddings"):
            return FirstToken("/v1/embeddings", json.dumps({"model": name, "input": "a"}).encode())
        asked = {"model": name, "prompt": "a", "max_tokens": 1, "temperature": 0}
        return FirstToken("/v1/completions", json.dumps(asked).encode())


def _adapter_flags(spec: ShardSpec) -> list[str]:
    """Adapters in catalog order, at scale 0: any other scale would change the base model's answers (E-101)."""
    out: list[str] = []
    for adapter in spec.profile.adapters:
        if ":" in adapter.source or "," in adapter.source:
            raise CannotStart(f"adapter {adapter.name}: llama-server takes no path with a colon or a comma")
        out += ["--lora-scaled", f"{adapter.source}:0"]
    return out


def _vulkan_devices(spec: ShardSpec) -> dict[str, str]:
    """Vulkan does not obey CUDA_VISIBLE_DEVICES and does not see MIG instances (E-13).

    Where there is nothing to name, a profile's own value must not stand either: it would name another shard's card.
    """
    if not spec.gpu_indices or spec.gpu_uuids:
        return {}
    return {_VULKAN_VARIABLE: ",".join(str(index) for index in spec.gpu_indices)}


def choose_files(path: str) -> tuple[str, str]:
    """Return (model, projector) of a source: itself, or the first of each in a directory (E-47).

    "mmproj-..." sorts before most models' names and is never the model. Raises CannotStart.
    """
    if not os.path.isdir(path):
        return path, ""
    names = sorted(name for name in os.listdir(path) if name.lower().endswith(".gguf"))
    projectors = [name for name in names if "mmproj" in name.lower()]
    models = [name for name in names if name not in projectors]
    if not models:
        has = "holds only a projector, no model" if projectors else "holds no .gguf file"
        raise CannotStart(f"{path} {has}")
    return os.path.join(path, models[0]), os.path.join(path, projectors[0]) if projectors else ""


def check_model_file(path: str) -> None:
    """Refuse a file that is no whole GGUF before an engine spends minutes on it. A missing one is the engine's to say."""
    file = Path(path)
    if not file.is_file():
        return
    size_bytes = file.stat().st_size
    for step_bytes in _READ_STEPS_BYTES:
        with file.open("rb") as opened:
            prefix = opened.read(step_bytes)
        try:
            read_header(prefix, size_bytes)
            return
        except HeaderCutShort:
            if len(prefix) == size_bytes or step_bytes == _READ_STEPS_BYTES[-1]:
                raise CannotStart(f"the model file {path} is not usable: it ends inside its header") from None
        except NotGGUF as fault:
            raise CannotStart(f"the model file {path} is not usable: {fault.sentence}") from None
