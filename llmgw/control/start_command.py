"""The `start` command of one shard, from a definition and its place (20 section 4.8)."""

from llmgw.config.model import ModelDefinition, Profile
from llmgw.control.replicas import Replica
from llmgw.policy.fingerprint import threads
from llmgw.wire.agent import EngineProfile, LoraAdapter, StartShard

RUNTIME_LORA = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"


def start_command(definition: ModelDefinition, profile: Profile, replica: Replica, address: str, key: str) -> StartShard:
    """Return what the agent is told. `address` is the node's own, where a replica of several nodes would meet."""
    args, env = launch_settings(definition, profile)
    return StartShard(
        replica_id=replica.id,
        shard_id=replica.shard_id,
        model=definition.name,
        rank=0,
        nnodes=1,
        gpu_indices=list(replica.share.gpus),
        leader_addr=address,
        http_port=replica.port,
        profile=EngineProfile(
            name=profile.name,
            engine=profile.engine,
            gpu_class=profile.gpu_class,
            nodes=profile.nodes,
            gpus_per_node=profile.gpus_per_node,
            tp=profile.tp,
            pp=profile.pp,
            args=args,
            env=env,
            model_path=definition.source,
            served_model_name=definition.name,
            adapters=[LoraAdapter(name=a.name, source=a.source) for a in definition.adapters],
            kv_events=profile.kv_events,
        ),
        profile_fp=replica.fingerprint,
        pool=replica.pool,
        api_key=key,
        threads=threads(definition, profile),
        ready_timeout_ms=round(profile.ready_timeout * 1000),
    )


def launch_settings(definition: ModelDefinition, profile: Profile) -> tuple[list[str], dict[str, str]]:
    """Return a profile's args and env, with what on-demand adapters ask of vllm (E-103). Neither input is changed."""
    args, env = list(profile.args), dict(profile.env)
    if profile.engine == "vllm" and definition.max_loaded_adapters > 0 and definition.adapters:
        env[RUNTIME_LORA] = "True"
        flags = {a.partition("=")[0].replace("_", "-") for a in args}
        loras = [] if "--max-loras" in flags else ["--max-loras", str(definition.max_loaded_adapters)]
        args = ["--enable-lora", *loras, *args] if "--enable-lora" not in flags else [*loras, *args]
    return args, env
