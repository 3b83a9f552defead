"""The admin API's objects (32 sections 2 to 4): what the leader shows, what ctl and other clients read.

A field the specification lists plainly is always in the answer, empty or not; one it marks as optional is left out
while it says nothing, and is never null (00 V-6: unknown is absent, not zero). `shown(...)` marks the first kind; a
plain default marks the second. Both decode when absent and unknown fields are ignored, so that an older ctl reads a
newer server and the reverse (C-98). Times are RFC 3339 UTC text, made by `rfc3339`; sizes are bytes unless the name
says otherwise.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T")


def shown(empty: T) -> T:
    """Return a field default that is still written when the field holds it; `empty` must be immutable or copied."""
    return msgspec.field(default_factory=lambda: empty)


def rfc3339(unix_s: float) -> str:
    """Return Unix seconds as the API writes times: `2026-01-31T12:00:00.250Z`, whole seconds without a fraction."""
    at = datetime.fromtimestamp(unix_s, UTC)
    text = at.isoformat(timespec="milliseconds" if at.microsecond >= 1000 else "seconds")
    return text.replace("+00:00", "Z")


class View(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An object of an answer."""


class RejectionView(View, frozen=True, kw_only=True):
    """Why one node does not hold a replica."""

    node: Annotated[str, Meta(description="The node's id.")]
    reason: Annotated[str, Meta(description="The first reason that keeps the replica off it, as a sentence.")]


class HeldView(View, frozen=True, kw_only=True):
    """The hold that keeps new work off a node without changing its state."""

    domain: Annotated[str, Meta(description="The domain held, `level:name`.")]
    reason: Annotated[str, Meta(description="Why it is held.")]


class DiskView(View, frozen=True, kw_only=True):
    """One file system of a node that llmgw uses."""

    path: Annotated[str, Meta(description="Where it is mounted, or the folder looked at.")]
    total: Annotated[int, Meta(description="Size in bytes.")]
    free: Annotated[int, Meta(description="Free to the agent, in bytes.")]


class LoadView(View, frozen=True, kw_only=True):
    """What a machine is doing, as of its last heartbeat."""

    cpu_percent: Annotated[float, Meta(description="Busy share of all cores, 0 to 100.")]
    memory_percent: Annotated[float, Meta(description="Memory in use, 0 to 100.")]
    cpu_temp_c: Annotated[float | None, Meta(description="CPU temperature; absent without a sensor.")] = None
    cpu_power_w: Annotated[float | None, Meta(description="CPU power; absent when not measured.")] = None
    inlet_temp_c: Annotated[float | None, Meta(description="Air inlet temperature; absent without a sensor.")] = None


class ClassGPUsView(View, frozen=True, kw_only=True):
    """A node's cards of one class."""

    gpu_class: Annotated[str, Meta(description="The class.")] = msgspec.field(name="class")
    total: Annotated[int, Meta(description="Cards.")]
    free: Annotated[int, Meta(description="Healthy and unassigned.")]
    unhealthy: Annotated[int, Meta(description="Cards nothing is placed on.")]


class EngineView(View, frozen=True, kw_only=True):
    """An engine on a node."""

    engine: Annotated[str, Meta(description="Its name.")]
    version: Annotated[str, Meta(description="Its release, empty when it did not say.")] = shown("")
    variant: Annotated[str, Meta(description="Its build.")] = shown("")
    state: Annotated[str, Meta(description="`ready`, `installing`, `failed`, ...")] = shown("")
    detail: Annotated[str, Meta(description="What to know about that state.")] = shown("")


class MIGView(View, frozen=True, kw_only=True):
    """The slice of a card that a GPU entry stands for."""

    card: Annotated[int, Meta(description="Index of the card.")]
    device: Annotated[int, Meta(description="Index of the instance on it.")]
    profile: Annotated[str, Meta(description="Its profile, like `1g.10gb`.")]


class GPUView(View, frozen=True, kw_only=True):
    """A whole card or one MIG instance."""

    node: Annotated[str, Meta(description="The node's id.")]
    index: Annotated[int, Meta(description="Index on the node.")]
    name: Annotated[str, Meta(description="The product's name.")]
    gpu_class: Annotated[str, Meta(description="Its class.")] = msgspec.field(name="class")
    uuid: Annotated[str, Meta(description="The driver's id.")]
    mig: Annotated[MIGView | None, Meta(description="The slice it is.")] = None
    memory_total_mb: Annotated[int, Meta(description="Memory in MiB.")]
    memory_used_mb: Annotated[int, Meta(description="In use, in MiB.")] = shown(0)
    foreign_mb: Annotated[int, Meta(description="In use by processes that are not llmgw's, in MiB.")] = shown(0)
    utilization_percent: Annotated[float | None, Meta(description="Busy share; absent when not measured.")] = None
    temp_c: Annotated[float | None, Meta(description="Temperature; absent when not measured.")] = None
    power_w: Annotated[float | None, Meta(description="Power; absent when not measured.")] = None
    power_limit_w: Annotated[float | None, Meta(description="Power limit; absent when not known.")] = None
    throttle: Annotated[tuple[str, ...], Meta(description="What holds it back now.")] = shown(())
    healthy: Annotated[bool, Meta(description="Whether placement may use it.")] = shown(True)
    problem: Annotated[str, Meta(description="Why it may not.")] = ""
    replica: Annotated[str, Meta(description="The replica on it.")] = ""
    model: Annotated[str, Meta(description="That replica's model.")] = ""


class NodeView(View, frozen=True, kw_only=True):
    """A machine that runs the agent."""

    id: Annotated[str, Meta(description="Its id.")]
    address: Annotated[str, Meta(description="The address others reach it at.")]
    state: Annotated[str, Meta(description="`ready`, `cordoned`, `draining` or `unreachable`.")]
    held: Annotated[HeldView | None, Meta(description="The hold on it.")] = None
    since: Annotated[str, Meta(description="When it entered that state.")] = ""
    last_seen: Annotated[str, Meta(description="Its last heartbeat; absent when not since this start.")] = ""
    version: Annotated[str, Meta(description="Its agent's release.")] = shown("")
    os: Annotated[str, Meta(description="Its operating system.")] = shown("")
    arch: Annotated[str, Meta(description="Its processor's architecture.")] = shown("")
    cpu_count: Annotated[int, Meta(description="Cores.")] = shown(0)
    cpu_model: Annotated[str, Meta(description="The processor's name.")] = shown("")
    memory_bytes: Annotated[int, Meta(description="Memory.")] = shown(0)
    memory_free_bytes: Annotated[int, Meta(description="Memory available to new processes.")] = shown(0)
    disk: Annotated[tuple[DiskView, ...], Meta(description="File systems llmgw uses.")] = shown(())
    load: Annotated[LoadView | None, Meta(description="What it is doing.")] = None
    labels: Annotated[Mapping[str, str], Meta(description="Labels, location labels among them.")] = shown({})
    fabrics: Annotated[tuple[str, ...], Meta(description="Fabrics it is on.")] = shown(())
    classes: Annotated[tuple[str, ...], Meta(description="GPU classes it has.")] = shown(())
    class_gpus: Annotated[tuple[ClassGPUsView, ...], Meta(description="Cards by class.")] = shown(())
    gpu_total: Annotated[int, Meta(description="Cards.")] = shown(0)
    gpu_free: Annotated[int, Meta(description="Healthy and unassigned cards.")] = shown(0)
    models: Annotated[tuple[str, ...], Meta(description="Models whose weights it has.")] = shown(())
    engines: Annotated[tuple[EngineView, ...], Meta(description="Engines it can start.")] = shown(())
    replicas: Annotated[tuple[str, ...], Meta(description="Ids of the replicas on it.")] = shown(())
    warnings: Annotated[tuple[str, ...], Meta(description="What to know about it, as sentences.")] = shown(())
    gpus: Annotated[tuple[GPUView, ...], Meta(description="Its cards; in the single-node answer only.")] = ()


class ShardView(View, frozen=True, kw_only=True):
    """A replica's process on one node."""

    id: Annotated[str, Meta(description="Its id.")]
    rank: Annotated[int, Meta(description="Its rank; 0 serves HTTP.")]
    node: Annotated[str, Meta(description="The node's id.")]
    gpus: Annotated[tuple[str, ...], Meta(description="Its cards, like `0` or `0/mig2`.")] = shown(())
    port: Annotated[int, Meta(description="The port its engine listens on.")] = shown(0)
    state: Annotated[str, Meta(description="Where it stands.")]
    error: Annotated[str, Meta(description="Why it failed.")] = ""


class ComputeView(View, frozen=True, kw_only=True):
    """What an engine said it computes on."""

    backend: Annotated[str, Meta(description="Like `cpu`, `cuda`.")] = shown("")
    devices: Annotated[tuple[str, ...], Meta(description="Devices it named.")] = shown(())
    layers_offloaded: Annotated[int | None, Meta(description="Layers on a card; absent when it did not say.")] = None
    layers_total: Annotated[int | None, Meta(description="Layers; absent when it did not say.")] = None


class FetchView(View, frozen=True, kw_only=True):
    """How far a download of weights is."""

    source: Annotated[str, Meta(description="What is fetched.")]
    done: Annotated[int, Meta(description="Bytes here.")]
    total: Annotated[int | None, Meta(description="Bytes in all; absent while unknown.")] = None


class ReplicaView(View, frozen=True, kw_only=True):
    """One running copy of a model."""

    id: Annotated[str, Meta(description="Its id.")]
    model: Annotated[str, Meta(description="Its model.")]
    profile: Annotated[str, Meta(description="The profile it runs.")]
    engine: Annotated[str, Meta(description="Its engine.")]
    state: Annotated[str, Meta(description="`pending`, `fetching`, `starting`, `ready`, `draining` or `failed`.")]
    desired_weights: Annotated[str, Meta(description="The weights it was started for.")] = shown("")
    variant: Annotated[str, Meta(description="Which weights of a canary it runs.")] = ""
    pool: Annotated[str, Meta(description="The pool it serves in.")] = shown("")
    node: Annotated[str, Meta(description="The node of rank 0.")] = shown("")
    shards: Annotated[tuple[ShardView, ...], Meta(description="Its processes.")] = shown(())
    compute: Annotated[ComputeView | None, Meta(description="What its engine computes on.")] = None
    fetch: Annotated[FetchView | None, Meta(description="The download it waits for.")] = None
    started_at: Annotated[str, Meta(description="When it was started.")] = ""
    idle_seconds: Annotated[int, Meta(description="Seconds since a request used it.")] = shown(0)
    inflight: Annotated[int, Meta(description="Requests it is answering.")] = shown(0)
    waiting: Annotated[int, Meta(description="Requests held for it.")] = shown(0)
    error: Annotated[str, Meta(description="Why it failed.")] = ""
    rejections: Annotated[tuple[RejectionView, ...], Meta(description="Why it is not elsewhere.")] = shown(())


class ShareView(View, frozen=True, kw_only=True):
    """A canary's share."""

    share: Annotated[int, Meta(description="Percent of requests.")]


class OriginView(View, frozen=True, kw_only=True):
    """Where a model's weights came from."""

    repo: Annotated[str, Meta(description="The repository.")]
    revision: Annotated[str, Meta(description="Its revision.")] = shown("")


class ModelLine(View, frozen=True, kw_only=True):
    """A model in the list."""

    name: Annotated[str, Meta(description="Its name.")]
    role: Annotated[str, Meta(description="What it is for when not for clients, like `guard`.")] = ""
    engine: Annotated[str, Meta(description="The engine of its best profile.")] = shown("")
    klass: Annotated[str, Meta(description="`critical`, `standard` or `opportunistic`.")] = msgspec.field(
        name="class", default_factory=lambda: "standard"
    )
    owner: Annotated[str, Meta(description="The scope it counts against.")] = ""
    ready: Annotated[int, Meta(description="Replicas that answer.")] = shown(0)
    desired: Annotated[int, Meta(description="Replicas wanted now.")] = shown(0)
    total: Annotated[int, Meta(description="Replicas in any state.")] = shown(0)
    min: Annotated[int, Meta(description="Kept running.")] = shown(0)
    max: Annotated[int, Meta(description="Most it scales to.")] = shown(0)
    status: Annotated[
        str,
        Meta(
            description="`serving`, `starting`, `on demand`, `waiting for room`, `short`, `parked`, `stopped` "
            "or `external`."
        ),
    ]
    on_demand: Annotated[bool, Meta(description="Loaded when first asked for.")] = False
    parked: Annotated[bool, Meta(description="Failed every start; no longer tried.")] = False
    failures: Annotated[int, Meta(description="Failed starts in a row.")] = 0
    reason: Annotated[str, Meta(description="Why it is not serving as wanted.")] = ""
    unplaceable: Annotated[bool, Meta(description="Fits nowhere now.")] = False
    update_available: Annotated[bool, Meta(description="Its registry has newer weights.")] = False
    canary: Annotated[ShareView | None, Meta(description="Its canary.")] = None
    source: Annotated[str, Meta(description="Where its weights are.")] = shown("")
    origin: Annotated[OriginView | None, Meta(description="Where they came from.")] = None
    declared: Annotated[bool, Meta(description="Declared in settings.")] = False
    adapters: Annotated[tuple[str, ...], Meta(description="Names of its adapters.")] = shown(())
    fallbacks: Annotated[tuple[str, ...], Meta(description="Models that may answer in its place.")] = shown(())


class ProfilePlacementView(View, frozen=True, kw_only=True):
    """Where one profile of a model could go."""

    name: Annotated[str, Meta(description="The profile.")]
    fits: Annotated[bool, Meta(description="Whether one more replica of it fits somewhere.")]
    candidates: Annotated[tuple[str, ...], Meta(description="Nodes it fits on, best first.")] = shown(())
    rejections: Annotated[tuple[RejectionView, ...], Meta(description="One reason per other node.")] = shown(())


class PlacedView(View, frozen=True, kw_only=True):
    """A replica that was placed, and why there."""

    id: Annotated[str, Meta(description="The replica.")]
    profile: Annotated[str, Meta(description="The profile it runs.")]
    nodes: Annotated[tuple[str, ...], Meta(description="Its nodes.")]
    gpus: Annotated[tuple[str, ...], Meta(description="Its cards, like `0` or `0/mig2`.")] = shown(())
    fabric: Annotated[str, Meta(description="The fabric it spans.")] = ""
    state: Annotated[str, Meta(description="Where it stands.")]
    why: Annotated[str, Meta(description="Why it went there.")] = ""


class PlacementView(View, frozen=True, kw_only=True):
    """Why a model is where it is, or why not (L-93)."""

    model: Annotated[str, Meta(description="The model.")]
    wanted: Annotated[int, Meta(description="Replicas wanted now.")]
    have: Annotated[int, Meta(description="Replicas that are, in any state but failed.")]
    replicas: Annotated[tuple[PlacedView, ...], Meta(description="Replicas placed.")] = shown(())
    profiles: Annotated[tuple[ProfilePlacementView, ...], Meta(description="Per profile, best first.")] = shown(())
    waiting_for: Annotated[str, Meta(description="What it waits for.")] = ""
    parked: Annotated[bool, Meta(description="Failed every start; no longer tried.")] = False
    failures: Annotated[int, Meta(description="Failed starts in a row.")] = 0
    reason: Annotated[str, Meta(description="The last failure.")] = ""
    retry_at: Annotated[str, Meta(description="When it is tried again.")] = ""


class RequestView(View, frozen=True, kw_only=True):
    """One request's accounting (T-34). Never text."""

    id: Annotated[str, Meta(description="Id of the row.")]
    request_id: Annotated[str, Meta(description="The `x-request-id` of the request.")]
    at: Annotated[str, Meta(description="When it began.")]
    endpoint: Annotated[str, Meta(description="Path it was sent to.")]
    stream: Annotated[bool, Meta(description="Whether it was streamed.")]
    key_id: Annotated[str, Meta(description="Id of its key.")] = ""
    kind: Annotated[str, Meta(description="Kind of its key.")] = ""
    project_id: Annotated[str, Meta(description="The key's project.")] = ""
    team_id: Annotated[str, Meta(description="The key's team.")] = ""
    org_id: Annotated[str, Meta(description="The key's organization.")] = ""
    user_id: Annotated[str, Meta(description="The key's person.")] = ""
    model: Annotated[str, Meta(description="The model asked for.")]
    served_model: Annotated[str, Meta(description="The model that answered.")] = ""
    replica_id: Annotated[str, Meta(description="The replica that answered.")] = ""
    variant: Annotated[str, Meta(description="Which weights of a canary.")] = ""
    external: Annotated[str, Meta(description="The provider or peer that answered.")] = ""
    prompt_tokens: Annotated[int, Meta(description="Tokens in.")] = shown(0)
    completion_tokens: Annotated[int, Meta(description="Tokens out.")] = shown(0)
    tokens_estimated: Annotated[bool, Meta(description="The engine did not count them.")] = False
    cost_micros: Annotated[int, Meta(description="Cost in millionths of the currency unit.")] = shown(0)
    status: Annotated[int, Meta(description="HTTP status of the answer.")]
    outcome: Annotated[str, Meta(description="`ok`, `error`, `limited`, `cancelled` or `blocked`.")]
    queue_ms: Annotated[int, Meta(description="Held before it was sent, in ms.")] = shown(0)
    ttft_ms: Annotated[int | None, Meta(description="Time to the first token, in ms; absent without one.")] = None
    latency_ms: Annotated[int, Meta(description="Whole time, in ms.")] = shown(0)
    end_user: Annotated[str, Meta(description="The caller's own name for its user.")] = ""
    tags: Annotated[str, Meta(description="Tags it carried.")] = ""
    band: Annotated[str, Meta(description="Priority band it queued in.")] = ""
    cache_hit: Annotated[bool, Meta(description="Answered from the answer cache.")] = False
    guard_action: Annotated[str, Meta(description="What guardrails did.")] = ""
    guard_policy: Annotated[str, Meta(description="The policy that did.")] = ""
    guard_category: Annotated[str, Meta(description="For which category.")] = ""
    guard_rule: Annotated[str, Meta(description="By which rule.")] = ""
    guard_ms: Annotated[int, Meta(description="Time guardrails took, in ms.")] = 0


class AuditEventView(View, frozen=True, kw_only=True):
    """One audit record (C-55)."""

    id: Annotated[int, Meta(description="Its place in the log; the cursor `before` takes it.")]
    at: Annotated[str, Meta(description="When.")]
    actor: Annotated[str, Meta(description="Who, as claimed by the holder of the token, or who signed in.")]
    source: Annotated[str, Meta(description="`api`, `console`, `web`, `cli`, `scim`, `oidc` or `system`.")]
    action: Annotated[str, Meta(description="What, like `model.scale`.")]
    target: Annotated[str, Meta(description="To what, like `model:chat`.")]
    result: Annotated[str, Meta(description="`ok`, `refused` or `failed`.")]
    status: Annotated[int, Meta(description="HTTP status of the answer; 0 when there was none.")] = 0
    error: Annotated[str, Meta(description="The refusal.")] = ""
    address: Annotated[str, Meta(description="Address it came from.")] = ""
    control_plane: Annotated[str, Meta(description="Control plane that took it.")] = ""
    fields: Annotated[tuple[str, ...], Meta(description="Names of the fields given.")] = shown(())
    before: Annotated[Mapping[str, Any], Meta(description="Their values before, secrets struck out.")] = {}
    after: Annotated[Mapping[str, Any], Meta(description="Their values after, secrets struck out.")] = {}


class NodeCounts(View, frozen=True, kw_only=True):
    """Nodes by state."""

    total: Annotated[int, Meta(description="All.")] = shown(0)
    ready: Annotated[int, Meta(description="Ready.")] = shown(0)
    cordoned: Annotated[int, Meta(description="Cordoned.")] = shown(0)
    draining: Annotated[int, Meta(description="Draining.")] = shown(0)
    unreachable: Annotated[int, Meta(description="In any other state.")] = shown(0)


class ClassUse(View, frozen=True, kw_only=True):
    """Cards of one class in the whole fleet. Free = total - used - unhealthy."""

    gpu_class: Annotated[str, Meta(description="The class.")] = msgspec.field(name="class")
    total: Annotated[int, Meta(description="Cards.")] = shown(0)
    used: Annotated[int, Meta(description="Assigned.")] = shown(0)
    unhealthy: Annotated[int, Meta(description="Cards nothing is placed on.")] = shown(0)


class FabricUse(View, frozen=True, kw_only=True):
    """One fabric's nodes and weights."""

    fabric: Annotated[str, Meta(description="The fabric.")]
    nodes: Annotated[int, Meta(description="Nodes on it.")] = shown(0)
    nodes_with_weights: Annotated[int, Meta(description="Of those, nodes holding any model's weights.")] = shown(0)
    models_present: Annotated[int, Meta(description="Distinct models among them.")] = shown(0)
    largest_free_block: Annotated[int, Meta(description="Nodes ready and wholly free.")] = shown(0)


class ReplicaCounts(View, frozen=True, kw_only=True):
    """Replicas by state."""

    ready: Annotated[int, Meta(description="Ready.")] = shown(0)
    starting: Annotated[int, Meta(description="In any other state.")] = shown(0)
    draining: Annotated[int, Meta(description="Draining.")] = shown(0)
    failed: Annotated[int, Meta(description="Failed.")] = shown(0)


class ModelCounts(View, frozen=True, kw_only=True):
    """Models that have what they want, and those that do not."""

    total: Annotated[int, Meta(description="All.")] = shown(0)
    satisfied: Annotated[int, Meta(description="Not parked, and as many ready as wanted now.")] = shown(0)
    short: Annotated[int, Meta(description="The others.")] = shown(0)


class ParkedView(View, frozen=True, kw_only=True):
    """A model that failed every start."""

    model: Annotated[str, Meta(description="The model.")]
    failures: Annotated[int, Meta(description="Failed starts in a row.")]
    reason: Annotated[str, Meta(description="The last failure.")]


class IdleView(View, frozen=True, kw_only=True):
    """A ready replica nothing asked for in ten minutes or more."""

    id: Annotated[str, Meta(description="The replica.")]
    model: Annotated[str, Meta(description="Its model.")]
    idle_seconds: Annotated[int, Meta(description="For how long.")]
    gpus: Annotated[int, Meta(description="Cards it holds.")] = shown(0)


class Summary(View, frozen=True, kw_only=True):
    """The fleet in one answer (32 section 3)."""

    version: Annotated[str, Meta(description="Release of the running process.")] = ""
    nodes: Annotated[NodeCounts, Meta(description="Nodes by state.")] = shown(NodeCounts())
    gpus: Annotated[tuple[ClassUse, ...], Meta(description="Cards by class.")] = shown(())
    fabrics: Annotated[tuple[FabricUse, ...], Meta(description="Fabrics.")] = ()
    replicas: Annotated[ReplicaCounts, Meta(description="Replicas by state.")] = shown(ReplicaCounts())
    models: Annotated[ModelCounts, Meta(description="Models.")] = shown(ModelCounts())
    unplaceable: Annotated[tuple[str, ...], Meta(description="Short models that fit nowhere.")] = ()
    parked: Annotated[tuple[ParkedView, ...], Meta(description="Models no longer tried.")] = ()
    idle_replicas: Annotated[tuple[IdleView, ...], Meta(description="Unused replicas, longest first.")] = ()
    store_error: Annotated[str, Meta(description="Why the store cannot be asked.")] = ""
