"""What is known of every node: its registration, its last heartbeat, and when it was last heard (P-121).

Nothing here is written to the store per heartbeat (P-120).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from llmgw.policy.snapshot import CORDONED, DRAINING_NODE, LOST, READY, UNREACHABLE, GPUSeen, NodeSeen
from llmgw.wire.agent import GPU, CachedWeight, GPUProblem, Heartbeat, NodeLoad, ProvisionStatus, Register

FOREIGN_TOLERANCE_MB = 512
"""Memory on a card that is no sign of a tenant: a context that let go of its model keeps a few hundred MiB (D-50)."""

_INSTALLING = frozenset({"wanted", "downloading", "verifying", "installing"})


@dataclass(slots=True, kw_only=True)
class Node:
    """One node. `register` is None for one that is only remembered from before this leader."""

    id: str
    address: str = ""
    known_since_s: float = 0.0
    register: Register | None = None
    last_seen_s: float | None = None
    last_seen_unix: float = 0.0
    state: str = UNREACHABLE
    state_since_unix: float = 0.0
    cordoned_by: str = ""
    is_drained: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    foreign_mb: list[int] = field(default_factory=list)
    memory_used_mb: list[int] = field(default_factory=list)
    weights: list[CachedWeight] = field(default_factory=list)
    engine_versions: dict[str, str] = field(default_factory=dict)
    engines_probed: bool = False
    provision: list[ProvisionStatus] = field(default_factory=list)
    cpu_count: int = 0
    disk_total_bytes: int = 0
    disk_free_bytes: int = 0
    load: NodeLoad = field(default_factory=NodeLoad)
    seen: NodeSeen | None = None

    def problems(self, place: int, gpu: GPU) -> list[GPUProblem]:
        """Return what is wrong with a GPU now: foreign memory as last measured, the rest as registered (P-46)."""
        if place >= len(self.foreign_mb):
            return list(gpu.problems)
        others = [p for p in gpu.problems if p.code != "foreign_memory"]
        foreign_mb = self.foreign_mb[place]
        if foreign_mb > FOREIGN_TOLERANCE_MB:
            text = f"{foreign_mb} MiB already allocated by another process"
            others.append(GPUProblem(code="foreign_memory", text=text))
        return others

    def gpus(self) -> list[GPU]:
        """Return its GPUs as registered."""
        return self.register.gpus if self.register else []


class Inventory:
    """Nodes by id."""

    def __init__(self, unreachable_after_s: float, lost_after_s: float) -> None:
        self._nodes: dict[str, Node] = {}
        self._unreachable_after_s = unreachable_after_s
        self._lost_after_s = lost_after_s

    def __iter__(self) -> Iterator[Node]:
        return iter(sorted(self._nodes.values(), key=lambda n: n.id))

    def get(self, node_id: str) -> Node | None:
        """Return a node by its id."""
        return self._nodes.get(node_id)

    def remember(self, node_id: str, address: str, now_s: float, now_unix: float) -> None:
        """Take in a node known from the store: unreachable until it registers."""
        if node_id not in self._nodes:
            self._nodes[node_id] = Node(
                id=node_id, address=address, known_since_s=now_s, state_since_unix=now_unix
            )

    def registered(self, register: Register, peer_address: str, now_s: float, now_unix: float) -> Node:
        """Take a node's description in full."""
        node = self._nodes.setdefault(register.node_id, Node(id=register.node_id, known_since_s=now_s))
        node.register = register
        node.address = register.mgmt_addr or peer_address
        node.labels = register.labels
        node.weights = register.weights
        node.engine_versions = register.engine_versions
        node.engines_probed = register.engines_probed
        node.provision = register.provision
        node.cpu_count = register.cpu_count
        node.disk_total_bytes, node.disk_free_bytes = register.disk_total_bytes, register.disk_free_bytes
        node.foreign_mb, node.memory_used_mb = [], []
        self._heard(node, now_s, now_unix)
        return node

    def heartbeat(self, heartbeat: Heartbeat, now_s: float, now_unix: float) -> bool:
        """Take a heartbeat; return whether it changed anything placement looks at."""
        node = self._nodes.get(heartbeat.node_id)
        if node is None or node.register is None:
            return False
        before = node.seen
        node.weights = heartbeat.weights
        node.engine_versions = heartbeat.engine_versions
        node.engines_probed = heartbeat.engines_probed
        node.provision = heartbeat.provision
        node.cpu_count = heartbeat.cpu_count or node.cpu_count
        node.disk_total_bytes, node.disk_free_bytes = heartbeat.disk_total_bytes, heartbeat.disk_free_bytes
        node.load = heartbeat.load
        count = len(node.register.gpus)
        used, foreign = heartbeat.gpu_memory_used_mb, heartbeat.gpu_foreign_memory_mb
        if len(used) == count and len(foreign) in (0, count):  # P-45: a list of another length drops both
            node.memory_used_mb = used
            node.foreign_mb = foreign or node.foreign_mb
        self._heard(node, now_s, now_unix)
        return before != node.seen

    def heard(self, node_id: str, now_s: float, now_unix: float) -> None:
        """Note that a node said anything at all."""
        node = self._nodes.get(node_id)
        if node is not None and node.register is not None:
            node.last_seen_s, node.last_seen_unix = now_s, now_unix

    def cordon(self, node_id: str, by: str, *, drain: bool = False) -> None:
        """Set (`by` not empty) or clear a node's cordon."""
        node = self._nodes.get(node_id)
        if node is not None:
            node.cordoned_by, node.is_drained = by, drain and bool(by)

    def refresh(self, now_s: float, now_unix: float) -> list[Node]:
        """Bring every node's state up to this moment; return those whose state changed."""
        changed: list[Node] = []
        for node in self._nodes.values():
            state = self._state(node, now_s)
            if state != node.state:
                node.state, node.state_since_unix, node.seen = state, now_unix, None
                changed.append(node)
            if node.seen is None:
                node.seen = _seen(node)
        return changed

    def nodes_seen(self) -> tuple[NodeSeen, ...]:
        """Return the nodes as policy sees them, as of the last `refresh`."""
        return tuple(n.seen for n in self if n.seen is not None)

    def is_complete(self) -> bool:
        """Return whether every node remembered has registered with this leader."""
        return all(n.register is not None for n in self._nodes.values())

    def _state(self, node: Node, now_s: float) -> str:
        last_s = node.known_since_s if node.last_seen_s is None else node.last_seen_s
        silent_s = now_s - last_s
        if silent_s >= self._lost_after_s:
            return LOST
        if node.register is None or silent_s >= self._unreachable_after_s:
            return UNREACHABLE
        if node.is_drained:
            return DRAINING_NODE
        return CORDONED if node.cordoned_by else READY

    def _heard(self, node: Node, now_s: float, now_unix: float) -> None:
        node.last_seen_s, node.last_seen_unix = now_s, now_unix
        state = self._state(node, now_s)
        if state != node.state:
            node.state, node.state_since_unix = state, now_unix
        node.seen = _seen(node)


def _seen(node: Node) -> NodeSeen:
    register = node.register or Register(node_id=node.id)
    return NodeSeen(
        id=node.id,
        state=node.state,
        labels=node.labels,
        engines=node.engine_versions,
        engines_probed=node.engines_probed,
        installing=frozenset(p.engine for p in node.provision if p.state in _INSTALLING),
        cpu_count=node.cpu_count,
        memory_bytes=register.memory_total_bytes,
        gpus=tuple(_gpu_seen(node, place, gpu) for place, gpu in enumerate(register.gpus)),
        weights={w.source: w.bytes for w in node.weights},
    )


def _gpu_seen(node: Node, place: int, gpu: GPU) -> GPUSeen:
    problems = node.problems(place, gpu)
    return GPUSeen(
        index=gpu.index,
        klass=gpu.gpu_class,
        memory_mb=gpu.memory_total_mb,
        problem="; ".join(p.text or p.code for p in problems),
        nvlink_peers=tuple(gpu.nvlink_peers),
        numa_node=gpu.numa_node,
    )
