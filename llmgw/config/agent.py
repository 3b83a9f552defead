"""agent.yaml: what one `llmgw agent` starts with (20 section 11, 21 section 10)."""

from typing import Annotated

from msgspec import Meta

from llmgw.config.duration import Seconds
from llmgw.config.server import LogSettings, Section, TLSFiles


class LlamacppSettings(Section, frozen=True):
    """The llama.cpp engine on this node."""

    bin: Annotated[str, Meta(description="Path of llama-server; else an installed build, else PATH.")] = ""
    parallel: Annotated[int, Meta(ge=1, description="Slots of a replica whose profile gives none.")] = 4
    threads: Annotated[int, Meta(ge=0, description="Threads of a CPU replica without reserved cores; 0 = CPU count.")] = 0


class SimSettings(Section, frozen=True):
    """The simulated engine, for rehearsals and tests."""

    enabled: Annotated[bool, Meta(description="Offer the simulated engine.")] = False


class EngineSettings(Section, frozen=True):
    """Engines on this node."""

    disabled: Annotated[list[str], Meta(description="Engines never offered here.")] = []
    llamacpp: Annotated[LlamacppSettings, Meta(description="llama.cpp.")] = LlamacppSettings()
    sim: Annotated[SimSettings, Meta(description="The simulated engine.")] = SimSettings()


class SupervisorSettings(Section, frozen=True):
    """How engine processes are run."""

    ready_timeout: Annotated[Seconds, Meta(description="Longest wait for an engine to answer.")] = 1800.0
    stop_grace: Annotated[Seconds, Meta(description="From SIGTERM to SIGKILL.")] = 30.0
    log_lines: Annotated[int, Meta(ge=512, le=100_000, description="Output lines kept per shard.")] = 2000
    user: Annotated[
        str, Meta(description="Unprivileged account engines run as when the agent is root (a name or a number).")
    ] = "llmgw-engine"


class WeightSettings(Section, frozen=True):
    """Downloads of model files."""

    proxy: Annotated[str, Meta(description="HTTP proxy of downloads; none when empty.")] = ""
    hf_token_file: Annotated[str, Meta(description="File of a model hub's token.")] = ""


class AgentConfig(Section, frozen=True):
    """agent.yaml, whole."""

    node_id: Annotated[str, Meta(description="Must equal the certificate's common name; the host name when empty.")] = ""
    servers: Annotated[list[str], Meta(description="Control planes, in order of preference.")] = []
    tls: Annotated[TLSFiles | None, Meta(description="This node's certificate and the authority.")] = None
    mgmt_addr: Annotated[str, Meta(description="Address engines listen on; found by the route to the first server.")] = ""
    mgmt_interface: Annotated[str, Meta(description="Interface of that address.")] = ""
    labels: Annotated[dict[str, str], Meta(description="Labels placement may select by.")] = {}
    heartbeat_interval: Annotated[Seconds, Meta(description="Between two heartbeats.")] = 5.0
    adopt_ready_timeout: Annotated[Seconds, Meta(description="Longest wait for an adopted engine to answer.")] = 600.0
    engines_dir: Annotated[str, Meta(description="Installed engines.")] = "/opt/llmgw/engines"
    weights_dir: Annotated[str, Meta(description="Downloaded model files.")] = "/var/lib/llmgw-agent/weights"
    state_dir: Annotated[str, Meta(description="Saved shards, logs, the list of control planes.")] = "/var/lib/llmgw-agent"
    inventory_file: Annotated[str, Meta(description="YAML list of this node's GPUs; none when empty.")] = ""
    engines: Annotated[EngineSettings, Meta(description="Engines.")] = EngineSettings()
    supervisor: Annotated[SupervisorSettings, Meta(description="Engine processes.")] = SupervisorSettings()
    weights: Annotated[WeightSettings, Meta(description="Downloads.")] = WeightSettings()
    log: Annotated[LogSettings, Meta(description="The log.")] = LogSettings()
