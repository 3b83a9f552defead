"""The agent's end of the link: dials the control planes, one after another, for as long as the agent lives (20 §2).

A link is a task group of its own: receiver, sender, heartbeats, and the node's watch. When any of them finds the link
over, all end; the node's own work goes on (P-17), and the next address is dialled. What a control plane says when it
refuses is logged in its own words, so that the cause can be read on the node alone (P-28).
"""

import random
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup

from llmgw.agent.control_planes import ControlPlaneList
from llmgw.agent.dial import Address, Backoff, Ended, NextDial, Rounds
from llmgw.agent.outbox import LinkEnded, Outbox
from llmgw.config.agent import AgentConfig
from llmgw.config.refusal import Refused
from llmgw.net.h2_link import DialFailed, DialRefused, LinkFigures, dial
from llmgw.net.h2_stream import H2Stream, StreamBroken
from llmgw.net.tls_contexts import client_context
from llmgw.obs.log import get
from llmgw.wire.agent import (
    CONNECT_PATH,
    CONTENT_TYPE,
    PROTOCOL,
    BadMessage,
    Bye,
    Command,
    Control,
    ControlPlanes,
    Heartbeat,
    Register,
    Registered,
    UnknownTag,
    decode_control,
    encode,
    is_node_id,
)
from llmgw.wire.agent_frames import BadFlag, FrameTooLarge

__all__ = ["AgentLink", "LinkEnded", "NodeSide", "Outbox"]

BARRED_CODES = frozenset({"forbidden", "revoked"})
BARRED_STATUS = 403


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


class AgentLink:
    """Keeps one link to a control plane that leads. Raises Refused for a configuration that cannot work."""

    def __init__(
        self,
        config: AgentConfig,
        node: NodeSide,
        *,
        node_id: str,
        version: str,
        figures: LinkFigures | None = None,
        jitter: Callable[[], float] = lambda: random.uniform(-1.0, 1.0),
    ) -> None:
        """`node_id` is the one in force (agent.yaml's, or the host's name); `jitter` gives -1 to 1."""
        tls = config.tls
        self._node = node
        self._node_id = node_id
        self._version = version
        self._interval_s = config.heartbeat_interval
        self._figures = figures or LinkFigures()
        self._planes = ControlPlaneList(config.servers, tls is not None, config.state_dir)
        self._tls_files = tls
        self._rounds = Rounds(Backoff(jitter), self._planes.addresses, tls is not None)
        self._term = 0
        self._log = get("agent.link")
        self._context()

    async def run(self) -> None:
        """Dial, carry the link, and dial again, until cancelled."""
        await self._node.register()
        step = self._rounds.first()
        while True:
            await anyio.sleep(step.delay_s)
            link = _Link(self._node, self._log, self._term, self._interval_s, self._planes, self._figures)
            ended, error = await self._supervised(step.address, link)
            self._term = link.term
            following = self._rounds.after(ended, anyio.current_time())
            self._report(step, ended, error, following)
            step = following

    async def _supervised(self, address: Address, link: "_Link") -> tuple[Ended, str]:
        """Make an attempt; a fault of ours ends that link and is logged, since the next one may do better."""
        try:
            return await self._attempt(address, link)
        except Exception as error:
            self._log.error("a fault ended the link", exc_info=error)
            return Ended(link.was_heard), f"a fault of the agent's own: {type(error).__name__}"

    async def _attempt(self, address: Address, link: "_Link") -> tuple[Ended, str]:
        """Make one link and carry it to its end; return how it ended and why, in words."""
        headers = [
            ("content-type", CONTENT_TYPE),
            ("llmgw-node", self._node_id),
            ("llmgw-version", self._version),
            ("llmgw-protocol", PROTOCOL),
        ]
        try:
            async with dial(
                address.host, address.port, self._context(), CONNECT_PATH, headers, self._figures
            ) as stream:
                await link.carry(stream, str(address))
                return Ended(link.was_heard, link.bye_code in BARRED_CODES), link.reason
        except Refused as error:
            return Ended(False), error.sentence
        except DialRefused as error:
            return Ended(False, error.status == BARRED_STATUS, error.leader), str(error)
        except (DialFailed, StreamBroken) as error:
            return Ended(link.was_heard, link.bye_code in BARRED_CODES), link.reason or str(error)

    def _context(self) -> ssl.SSLContext | None:
        """Read the certificate afresh for each link, so that a renewed one is used from the next."""
        files = self._tls_files
        return client_context(files.ca, files.cert, files.key) if files is not None else None

    def _report(self, step: NextDial, ended: Ended, error: str, following: NextDial) -> None:
        self._log.warning(
            "link to the control plane ended" if ended.was_heard else "no link to the control plane",
            error=error,
            server=str(step.address),
            next_server=str(following.address),
            delay_ms=round(following.delay_s * 1000),
            attempt=step.attempt,
        )


class _Link:
    """One link from Register to its end. `reason` says why it ended, in words."""

    def __init__(
        self,
        node: NodeSide,
        log: Any,
        term: int,
        interval_s: float,
        planes: ControlPlaneList,
        figures: LinkFigures,
    ) -> None:
        self.was_heard = False
        self.bye_code = ""
        self.reason = ""
        self.term = term
        self._node = node
        self._log = log
        self._interval_s = interval_s
        self._planes = planes
        self._answer_s = figures.answer_s
        self._skipped: set[str] = set()
        self._answered = anyio.Event()

    async def carry(self, stream: H2Stream, server: str) -> None:
        """Register and serve the link until it ends for a `reason`. Raises StreamBroken while registering."""
        register = await self._node.register()
        await stream.send_document(encode(register))
        outbox = Outbox()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._until_over, tasks, lambda: self._receive(stream, outbox, server))
                tasks.start_soon(self._until_over, tasks, lambda: self._send(stream, outbox))
                tasks.start_soon(self._until_over, tasks, lambda: self._heartbeats(outbox))
                tasks.start_soon(self._until_over, tasks, lambda: self._watch(outbox, register))
                tasks.start_soon(self._until_over, tasks, self._demand_answer)
        finally:
            outbox.close()

    async def _until_over(self, tasks: TaskGroup, part: Callable[[], Awaitable[None]]) -> None:
        """Run one part of the link; the part that finds the link over says why and ends the others."""
        try:
            await part()
            return
        except StreamBroken as error:
            reason = error.reason
        except (LinkOver, BadMessage, FrameTooLarge, BadFlag) as error:
            reason = str(error)
        except LinkEnded:
            reason = "the link ended"
        self.reason = self.reason or reason
        tasks.cancel_scope.cancel()

    async def _receive(self, stream: H2Stream, outbox: Outbox, server: str) -> None:
        while (document := await stream.receive_document()) is not None:
            self.was_heard = True
            self._answered.set()
            try:
                control = decode_control(document)
            except UnknownTag as unknown:
                self._skip(unknown.tag)
                continue
            self._check_term(control)
            await self._act(control, outbox, server)
        raise LinkOver("the control plane ended the stream")

    def _skip(self, tag: str) -> None:
        if tag not in self._skipped and len(self._skipped) < 100:
            self._skipped.add(tag)
            self._log.info("skipped messages of a kind this release does not know", tag=tag)

    def _check_term(self, control: Control) -> None:
        """Refuse a leader that another has replaced (P-44)."""
        if control.term < self.term:
            raise LinkOver(
                f"refused a command of term {control.term}: this agent has seen term {self.term}, so this control "
                "plane no longer leads"
            )
        self.term = control.term

    async def _act(self, control: Control, outbox: Outbox, server: str) -> None:
        message = control.msg
        if isinstance(message, Bye):
            self.bye_code = message.code
            raise LinkOver(f"the control plane said goodbye ({message.code}): {message.reason}")
        if isinstance(message, Registered):
            if message.heartbeat_interval_ms > 0:
                self._interval_s = message.heartbeat_interval_ms / 1000
            self._log.info(
                "registered", server=server, control_plane=message.control_plane, term=control.term
            )
        elif isinstance(message, ControlPlanes):
            self._learn(message.servers)
        else:
            self._node.on_command(message, control.trace, outbox)

    def _learn(self, servers: list[str]) -> None:
        try:
            if self._planes.learn(servers):
                listed = [str(address) for address in self._planes.addresses()]
                self._log.info("the list of control planes changed", servers=listed)
        except OSError as error:
            self._log.warning("cannot keep the list of control planes", error=str(error))

    async def _send(self, stream: H2Stream, outbox: Outbox) -> None:
        async for message in outbox.queued():
            await stream.send_document(encode(message))

    async def _heartbeats(self, outbox: Outbox) -> None:
        """Send the first at once, then one each interval (P-33)."""
        seq = 0
        while True:
            seq += 1
            await outbox.send(await self._node.heartbeat(seq))
            await anyio.sleep(self._interval_s)

    async def _watch(self, outbox: Outbox, register: Register) -> None:
        await self._node.watch(outbox, register)

    async def _demand_answer(self) -> None:
        with anyio.move_on_after(self._answer_s):
            await self._answered.wait()
            return
        raise LinkOver(f"no answer to Register within {self._answer_s:g} s")


class LinkOver(Exception):
    """The link is to end, for the reason given."""


def node_id_of(config: AgentConfig, host_name: str) -> str:
    """Return the node's id: agent.yaml's, else the host's name in lower case. Raises Refused when it is none."""
    node_id = config.node_id or host_name.lower()
    if not is_node_id(node_id):
        raise Refused(
            400,
            f"node_id {node_id!r} must be 1 to 63 of a-z, 0-9, '.', '_', '-', beginning with a letter or a digit; "
            "set node_id in agent.yaml to the certificate's common name",
        )
    return node_id
