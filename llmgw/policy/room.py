"""What is left on each node: hardware less reservations. Placement reads it, and simulation takes from a copy.

Reservations decide, never measurements (L-43), with one exception that only narrows: a GPU with a problem, memory
held by others included, is neither used nor free (L-42, F-21).
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from llmgw.policy.snapshot import NodeSeen, ReplicaSeen, Share

RESERVE_MB = 2048
RESERVE_PART = 0.05


class NodeRoom(Struct, frozen=True):
    """One node with what is held of it. `models`: model -> replicas here, stopping ones not counted."""

    node: NodeSeen
    held_gpus: frozenset[int] = frozenset()
    held_cores: int = 0
    held_memory_mb: int = 0
    models: Mapping[str, int] = {}

    def usable_memory_mb(self) -> int:
        """Return the node's memory less what is kept for the system: 2 GiB or 5 %, whichever is larger."""
        total_mb = self.node.memory_bytes // (1024 * 1024)
        return max(total_mb - max(RESERVE_MB, int(total_mb * RESERVE_PART)), 0)

    def free_memory_mb(self) -> int:
        """Return memory no reservation holds, MiB."""
        return self.usable_memory_mb() - self.held_memory_mb

    def free_cores(self) -> int:
        """Return cores no reservation holds."""
        return self.node.cpu_count - self.held_cores

    def free_gpus(self, klass: str) -> tuple[int, ...]:
        """Return the indices of healthy GPUs of a class that no shard holds, ascending."""
        held = self.held_gpus
        free = [g.index for g in self.node.gpus if g.klass == klass and not g.problem and g.index not in held]
        free.sort()
        return tuple(free)

    def replica_count(self) -> int:
        """Return how many replicas run here."""
        return sum(self.models.values())

    def with_share(self, share: Share, model: str) -> "NodeRoom":
        """Return the room after one more share of `model` was taken."""
        return replace(
            self,
            held_gpus=self.held_gpus | set(share.gpus),
            held_cores=self.held_cores + share.cores,
            held_memory_mb=self.held_memory_mb + share.memory_mb,
            models={**self.models, model: self.models.get(model, 0) + 1} if model else self.models,
        )

    def emptied(self) -> "NodeRoom":
        """Return the same hardware with nothing on it and its state ready: what could ever fit (L-51)."""
        healthy = tuple(replace(g, problem="") for g in self.node.gpus)
        return NodeRoom(node=replace(self.node, state="ready", gpus=healthy))


class Room(Struct, frozen=True):
    """The room of every node, by node id, and the bytes of each weights source any node is known to hold."""

    nodes: Mapping[str, NodeRoom]
    weight_bytes: Mapping[str, int] = {}

    def taking(self, share: Share, model: str) -> "Room":
        """Return the room after `model` took `share`. A share on a node that is not here changes nothing."""
        here = self.nodes.get(share.node)
        if here is None:
            return self
        return replace(self, nodes={**self.nodes, share.node: here.with_share(share, model)})


def room_of(nodes: Iterable[NodeSeen], replicas: Iterable[ReplicaSeen]) -> Room:
    """Return the room that the replicas leave on the nodes. A stopping replica still holds its share."""
    rooms = {n.id: NodeRoom(node=n) for n in nodes}
    for replica in replicas:
        for share in replica.shares:
            if share.node in rooms:
                model = "" if replica.phase == "stopping" else replica.model
                rooms[share.node] = rooms[share.node].with_share(share, model)
    sizes: dict[str, int] = {}
    for room in rooms.values():
        for source, size in room.node.weights.items():
            sizes[source] = max(size, sizes.get(source, 0))
    return Room(nodes=rooms, weight_bytes=sizes)
