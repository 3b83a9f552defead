"""What the agent asks of an engine's adapter (E-1), and what every adapter builds alike: the environment (21 section 2)."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from llmgw.agent.shard_spec import ShardSpec
from llmgw.policy.engine_rules import TRAITS, ProfileShape, gpus_fault, shape_fault
from llmgw.wire.agent import GPU, EngineProfile

_CPU_COUNT_VARIABLE = "OMP_NUM_THREADS"


class CannotStart(Exception):
    """A shard that cannot be started here, in one sentence; nothing has been launched, or what was is stopped."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class Command(msgspec.Struct, frozen=True):
    """One program of a shard. `env` is the whole environment it gets. No argument ever holds a key (E-8)."""

    name: str
    path: str
    args: list[str]
    env: dict[str, str]

    def __repr__(self) -> str:
        return f"Command({self.name}, {self.path})"


class FirstToken(msgspec.Struct, frozen=True):
    """A request that makes an engine compute once, asked before a shard is called ready."""

    path: str
    body: bytes


class EngineAdapter(Protocol):
    """One engine: how it is checked, started and asked."""

    name: str
    health_path: str
    metrics_path: str
    falls_back_to_cpu: bool

    def serves_http(self, spec: ShardSpec) -> bool:
        """Return whether this shard answers HTTP (else it is ready when it stays alive)."""
        ...

    def validate(self, profile: EngineProfile, gpus: Sequence[GPU]) -> str | None:
        """Return why this profile cannot run on these GPUs, or None."""
        ...

    def commands(self, spec: ShardSpec, engine_dir: str) -> list[Command]:
        """Return the shard's programs. Raises CannotStart."""
        ...

    def use_installed(self, path: str) -> None:
        """Run the build installed at `path` from now on; "" forgets it."""
        ...

    def program(self) -> str | None:
        """Return the program that would be run, or None."""
        ...

    def configured(self) -> bool:
        """Return whether the operator named this engine's program by hand."""
        ...

    def version_command(self) -> list[str] | None:
        """Return the command whose output says the version, or None when there is no program."""
        ...

    def version_in(self, output: str) -> str | None:
        """Return the version that the output of `version_command` names."""
        ...

    def device_command(self) -> list[str] | None:
        """Return the command that lists the devices an engine sees, or None when it has none such."""
        ...

    def devices_in(self, output: str) -> list[str]:
        """Return the devices that the output of `device_command` names (E-50)."""
        ...

    def first_token(self, spec: ShardSpec) -> FirstToken | None:
        """Return the request that proves a computed answer, or None to skip it."""
        ...


def profile_fault(profile: EngineProfile, gpus: Sequence[GPU]) -> str | None:
    """The checks every engine shares (E-3): sizes, source, and enough GPUs of sufficient capability."""
    shape = ProfileShape(
        name=profile.name,
        engine=profile.engine,
        model_path=profile.model_path,
        gpu_class=profile.gpu_class,
        nodes=max(profile.nodes, 1),
        gpus_per_node=profile.gpus_per_node,
        tp=max(profile.tp, 1),
        pp=max(profile.pp, 1),
    )
    return shape_fault(shape) or gpus_fault(shape, len(gpus)) or _capability_fault(profile, gpus)


def _capability_fault(profile: EngineProfile, gpus: Sequence[GPU]) -> str | None:
    least = TRAITS[profile.engine].min_capability
    for gpu in gpus if least else ():
        if gpu.compute_capability and _version(gpu.compute_capability) < _version(least):
            return (
                f"profile {profile.name}: GPU {gpu.index} has compute capability {gpu.compute_capability}, "
                f"{profile.engine} needs {least}"
            )
    return None


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def engine_environment(
    spec: ShardSpec, engine_dir: str, key_variable: str, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return a shard's whole environment: a fixed base, the profile's, then ours, which wins (E-10..E-16)."""
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": engine_dir,
        "TMPDIR": engine_dir,
        "LANG": "C.UTF-8",
    }
    if spec.gpu_indices:
        env["NCCL_DEBUG"] = "WARN"
    if not spec.gpu_indices and spec.threads > 0:
        env[_CPU_COUNT_VARIABLE] = str(spec.threads)
    env.update({name.strip(): value for name, value in spec.profile.env.items()})
    env.update(_device_variables(spec))
    env.update(_fabric_variables(spec))
    env.update(extra or {})
    if spec.api_key and spec.is_leader:
        env[key_variable] = spec.api_key
    return env


def _device_variables(spec: ShardSpec) -> dict[str, str]:
    chosen = spec.gpu_uuids or [str(index) for index in spec.gpu_indices]
    return {"CUDA_VISIBLE_DEVICES": ",".join(chosen), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def _fabric_variables(spec: ShardSpec) -> dict[str, str]:
    """RDMA adapters for NCCL (E-14). A replica over nodes without any must fail at once, not time out."""
    if not spec.hcas:
        return {"NCCL_IB_DISABLE": "1"} if spec.nnodes > 1 else {}
    found = {"NCCL_IB_HCA": "=" + ",".join(spec.hcas)}
    if spec.gid_index >= 0:
        found["NCCL_IB_GID_INDEX"] = str(spec.gid_index)
    if spec.mgmt_interface:
        found |= {"NCCL_SOCKET_IFNAME": spec.mgmt_interface, "GLOO_SOCKET_IFNAME": spec.mgmt_interface}
    return found
