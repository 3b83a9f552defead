"""The control plane's end of the agents' links: what it asks of the leader behind it."""

from collections.abc import Sequence
from typing import Protocol

from llmgw.wire.agent import Heartbeat, Register, ShardStatus


class LinkEvents(Protocol):
    """What the leader hears from the links. Every method returns at once: none may wait (P-120)."""

    def on_register(self, node_id: str, register: Register, peer_address: str) -> Sequence[str]:
        """Take a node's description; return the ids of running shards that nobody wants (each is sent `stop`).

        `peer_address` is the IP address the agent dialled from. Commands sent from inside the call leave after
        Registered and ControlPlanes, in order. Also called when a new link replaced one of the same node.
        """
        ...

    def on_heartbeat(self, node_id: str, heartbeat: Heartbeat) -> None:
        """Take a heartbeat of the node's present link."""
        ...

    def on_shard(self, node_id: str, status: ShardStatus) -> None:
        """Take a shard's report."""
        ...

    def on_link_lost(self, node_id: str) -> None:
        """Learn that the node's link ended and no other replaced it. The node's engines serve on (P-30)."""
        ...
