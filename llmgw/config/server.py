"""server.yaml: what one `llmgw server` starts with (C-60), and the cluster keys it imports.

Field names are the file's keys. A default here is the documented default; the description is the reference's text.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from llmgw.config.duration import Seconds


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A table of settings; an unknown key is an error naming it."""


class TLSFiles(Section, frozen=True):
    """A certificate, its key, and the authority that signs the other side."""

    ca: Annotated[str, Meta(description="File of the authority's certificate (PEM).")] = ""
    cert: Annotated[str, Meta(description="File of this side's certificate (PEM).")] = ""
    key: Annotated[str, Meta(description="File of its private key (PEM), readable by its owner only.")] = ""


class Price(Section, frozen=True):
    """What tokens of one model cost, in micro-units per 1,000 tokens (T-33)."""

    prompt_per_1k: Annotated[int, Meta(ge=0, description="Micro-units per 1,000 prompt tokens.")] = 0
    completion_per_1k: Annotated[int, Meta(ge=0, description="Micro-units per 1,000 completion tokens.")] = 0


class AuthSettings(Section, frozen=True):
    """Keys, prices and the usage recorder."""

    enabled: Annotated[bool, Meta(description="Demand an API key of every client request.")] = True
    store: Annotated[
        str,
        Meta(description="The store: a path of an SQLite file, or a postgres:// address."),
    ] = "/var/lib/llmgw/llmgw.db"
    pricing: Annotated[dict[str, Price], Meta(description="Prices by model name.")] = {}
    default_price: Annotated[Price, Meta(description="Price of models not listed.")] = Price()
    flush_interval: Annotated[Seconds, Meta(description="How often usage rows are written.")] = 0.2
    batch_size: Annotated[int, Meta(ge=1, le=10_000, description="Most usage rows written at once.")] = 500
    buffer_size: Annotated[int, Meta(ge=1, description="Most usage rows waiting; more are dropped and counted.")] = 8192
    usage_retention: Annotated[Seconds, Meta(description="How long usage rows are kept; 0 keeps all.")] = 7_776_000.0


class RouterTimeouts(Section, frozen=True):
    """Deadlines towards an engine, one per phase (S-11)."""

    dial: Annotated[Seconds, Meta(description="To connect to an engine.")] = 5.0
    first_byte: Annotated[Seconds, Meta(description="Until the first byte of its answer.")] = 600.0
    idle: Annotated[Seconds, Meta(description="Between two bytes of its answer.")] = 120.0
    total: Annotated[Seconds, Meta(description="For the whole answer.")] = 3600.0


class AdmissionSettings(Section, frozen=True):
    """How long a request waits for a model."""

    load_wait: Annotated[Seconds, Meta(description="How long a request waits while its model loads.")] = 300.0


class RouterSettings(Section, frozen=True):
    """The gateway."""

    scrape_interval: Annotated[Seconds, Meta(description="How often each engine's metrics are read.")] = 2.0
    inject_usage: Annotated[bool, Meta(description="Ask engines for token counts on streams.")] = True
    max_body_bytes: Annotated[int, Meta(ge=1024, description="Largest request body, in bytes.")] = 33_554_432
    max_connections: Annotated[int, Meta(ge=1, description="Most client connections.")] = 16_384
    timeouts: Annotated[RouterTimeouts, Meta(description="Deadlines towards an engine.")] = RouterTimeouts()
    trusted_proxies: Annotated[
        list[str], Meta(description="Addresses or networks exempt from the bound of connections per address.")
    ] = []
    admission: Annotated[AdmissionSettings, Meta(description="Waiting for a model.")] = AdmissionSettings()


class ControlSettings(Section, frozen=True):
    """The leader's loop."""

    port_range: Annotated[str, Meta(description="Ports engines listen on, per node.")] = "20000-20999"
    timezone: Annotated[str, Meta(description="IANA time zone of scaling schedules.")] = "UTC"
    drain_timeout: Annotated[Seconds, Meta(description="Longest wait for running answers of a draining replica.")] = 600.0
    node_unreachable_after: Annotated[Seconds, Meta(description="Silence after which a node is unreachable.")] = 20.0
    node_lost_after: Annotated[Seconds, Meta(description="Silence after which a node's replicas are replaced.")] = 90.0
    park_after: Annotated[int, Meta(ge=1, description="Failed starts in a row after which a model is parked.")] = 5
    adopt_grace: Annotated[
        Seconds, Meta(description="How long a new leader waits for agents before it replaces what they may still run.")
    ] = 30.0


class LogSettings(Section, frozen=True):
    """The process's log, on standard error."""

    format: Annotated[str, Meta(pattern="^(text|json)$", description="`text` or `json`.")] = "text"
    level: Annotated[str, Meta(pattern="^(debug|info|warning|error)$", description="Least severity shown.")] = "info"


class ServerConfig(Section, frozen=True):
    """server.yaml, whole."""

    name: Annotated[str, Meta(description="This control plane's name; the host name when empty.")] = ""
    listen: Annotated[str, Meta(description="Client API.")] = ":8080"
    agent_listen: Annotated[str, Meta(description="Agents.")] = ":7443"
    admin_listen: Annotated[str, Meta(description="Admin API; loopback unless `admin_remote`.")] = "127.0.0.1:9090"
    metrics_listen: Annotated[str, Meta(description="Metrics for Prometheus.")] = ":9091"
    admin_token_file: Annotated[
        str, Meta(description="File of the admin token, made at first start; beside the store when empty.")
    ] = ""
    admin_remote: Annotated[bool, Meta(description="Allow an `admin_listen` that is not loopback.")] = False
    agent_tls: Annotated[TLSFiles | None, Meta(description="Server side of the agents' mutual TLS.")] = None
    agent_insecure: Annotated[bool, Meta(description="Accept agents without TLS (development only).")] = False
    endpoints: Annotated[list[str], Meta(description="Addresses agents may dial to reach this control plane.")] = []
    auth: Annotated[AuthSettings, Meta(description="Keys, prices, usage.")] = AuthSettings()
    router: Annotated[RouterSettings, Meta(description="The gateway.")] = RouterSettings()
    control: Annotated[ControlSettings, Meta(description="The leader's loop.")] = ControlSettings()
    models: Annotated[list[dict[str, Any]], Meta(description="Declared models (docs/models.md).")] = []
    log: Annotated[LogSettings, Meta(description="The log.")] = LogSettings()
