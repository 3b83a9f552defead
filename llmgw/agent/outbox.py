"""What an agent still has to say on one link: a bounded queue between the node's tasks and the link's sender (P-16).

Tasks of the node outlive links: a download that began on one link reports on the next. So whoever sends holds the
outbox of a particular link, and learns by `LinkEnded` that this one is over; the state it meant to report is found
again by the next Register, or by that link's `watch` (P-58). A full queue makes senders wait: a control plane that
does not read holds back the agent's reports, and its memory stays where it is.
"""

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from llmgw.wire.agent import AgentMessage

QUEUE_MESSAGES = 256
"""Messages that may wait to be sent (P-16)."""


class LinkEnded(Exception):
    """This link is over; what was to be sent was not."""


class Outbox:
    """The sending end of one link. Safe to use from any number of tasks, also after the link's end."""

    def __init__(self, queue_messages: int = QUEUE_MESSAGES) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[AgentMessage](queue_messages)

    async def send(self, message: AgentMessage) -> None:
        """Queue a message, waiting while the queue is full. Raises LinkEnded."""
        try:
            await self._send.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise LinkEnded from None

    def try_send(self, message: AgentMessage) -> bool:
        """Queue a message if there is room now; tell whether it was queued. False once the link is over."""
        try:
            self._send.send_nowait(message)
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True

    def queued(self) -> MemoryObjectReceiveStream[AgentMessage]:
        """Return the end that the link's sender reads."""
        return self._receive

    def close(self) -> None:
        """End the link for every sender, those now waiting included."""
        self._receive.close()
        self._send.close()
