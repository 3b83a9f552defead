"""The agent's end of the link: what it asks of the node behind it."""

from typing import Protocol

from llmgw.agent.outbox import LinkEnded, Outbox
from llmgw.wire.agent import Command, Heartbeat, Register

__all__ = ["LinkEnded", "NodeSide", "Outbox"]


class NodeSide(Protocol):
    """What the link asks of the node. The node's own tasks outlive every link (P-17)."""

    async def register(self) -> Register:
        """Describe the node as it is now. The first call may take until engines are probed (P-21, at most 60 s)."""
        ...

    async def heartbeat(self, seq: int) -> Heartbeat:
        """Describe what changed by itself; `seq` goes into the message."""
        ...

    def on_command(self, message: Command, trace: dict[str, str], outbox: Outbox) -> None:
        """Act on a command in a task of the node's own; never blocks and never raises.

        Given are start, stop, drain, logs and remove_weights. Answers go to `outbox`, which may end meanwhile.
        """
        ...

    async def watch(self, outbox: Outbox, registered: Register) -> None:
        """Report what happens for the life of this link (P-58, P-59); `registered` is what its Register said.

        Cancelled when the link ends; LinkEnded may be let out.
        """
        ...
