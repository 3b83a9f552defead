"""One node's link as the control plane holds it: its queue of commands, what it waits for, and how it ends (20 P-18)."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from llmgw.net.h2_link import IncomingLink
from llmgw.net.h2_stream import StreamBroken
from llmgw.wire.agent import Bye, Command, Control, LogsReply, encode

QUEUE_COMMANDS = 1024
"""Commands that may wait for a node; more than a full node's shards, so a full queue means that it does not read."""

ENHANCE_YOUR_CALM = 0x0B
PROTOCOL_ERROR = 0x01


class Expected:
    """A reply on its way; `value` stays None when the link ended first."""

    def __init__(self) -> None:
        self.arrived = anyio.Event()
        self.value: LogsReply | None = None


class NodeLink:
    """A link that was accepted, registered or not yet."""

    def __init__(self, node_id: str, incoming: IncomingLink) -> None:
        self.node_id = node_id
        self.peer_address = incoming.peer_address
        self.serial = incoming.serial
        self.issued_unix = incoming.issued_unix
        self.stream = incoming.stream
        self.scope: anyio.CancelScope | None = None
        self.gone = anyio.Event()
        self.reason = ""
        self._code = ""
        self._is_reset = False
        self._seq = 0
        self._tags: set[str] = set()
        self._expected: dict[str, Expected] = {}
        self._put, self._get = anyio.create_memory_object_stream[Control](QUEUE_COMMANDS)

    def queue(self, command: Command, term: int, trace: dict[str, str]) -> bool:
        """Queue a command in its envelope; False when the link is ending or its queue is full."""
        if self.is_ending():
            return False
        try:
            self._put.send_nowait(Control(msg=command, trace=trace, term=term))
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True

    async def send_queued(self) -> None:
        """Send what is queued, as fast as the agent reads, until the stream breaks."""
        try:
            async for control in self._get:
                await self.stream.send_document(encode(control))
        except StreamBroken:
            return

    def is_ending(self) -> bool:
        """Return whether the link was told to end."""
        return bool(self._code) or self._is_reset

    def end(self, code: str, reason: str) -> None:
        """End the link with a Bye; the first one stands."""
        if not self.is_ending():
            self._code, self.reason = code, reason
            if self.scope is not None:
                self.scope.cancel()

    def reset(self, reason: str, *, calm: bool) -> None:
        """End the link by resetting its stream, for framing that cannot be followed any more (P-3, P-4)."""
        self._is_reset, self.reason = True, reason
        self.stream.reset(ENHANCE_YOUR_CALM if calm else PROTOCOL_ERROR)

    async def say_goodbye(self, term: int, bound_s: float) -> None:
        """Send the Bye there is, end the stream, and wait a little for the agent to hang up."""
        with anyio.move_on_after(bound_s, shield=True):
            try:
                if self._code:
                    bye = Bye(code=self._code, reason=self.reason)
                    await self.stream.send_document(encode(Control(msg=bye, term=term)))
                self.stream.end()
                await self.stream.closed_by_peer()
            except StreamBroken:
                pass
        self.gone.set()

    def close(self) -> None:
        """Free whoever waits for something of this link."""
        self._put.close()
        self._get.close()
        for expected in self._expected.values():
            expected.arrived.set()

    def is_next(self, seq: int) -> bool:
        """Return whether a heartbeat's number rises, and remember it; a stale one is not to be used."""
        rises = seq > self._seq
        self._seq = max(seq, self._seq)
        return rises

    def is_new_tag(self, tag: str) -> bool:
        """Return whether an unknown tag is seen for the first time on this link (P-40); counts a hundred at most."""
        if tag in self._tags or len(self._tags) >= 100:
            return False
        self._tags.add(tag)
        return True

    @contextmanager
    def expecting(self, request_id: str) -> Iterator[Expected]:
        """Take the reply to `request_id` for as long as the block lasts."""
        expected = self._expected[request_id] = Expected()
        try:
            yield expected
        finally:
            del self._expected[request_id]

    def answer(self, reply: LogsReply) -> None:
        """Give a reply to whoever waits for it; one that nobody waits for any more is dropped."""
        expected = self._expected.get(reply.request_id)
        if expected is not None:
            expected.value = reply
            expected.arrived.set()
