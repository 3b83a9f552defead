"""The control plane's end of the agents' links: who may speak, one link per node, and what each end says (20 §1, §2).

What certificate and headers tell is answered by status; what only Register can tell, by `Bye`. A node has one link:
the newest, since an agent that dials again knows its old one is dead long before we do. Handlers of the leader are
called from the receive loop and never wait; commands wait in a queue per link, and a node that does not read them
is told from the full queue, not by growing memory.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import anyio
from anyio.abc import TaskStatus

from llmgw.config.refusal import Refused
from llmgw.config.server import TLSFiles
from llmgw.control.node_link import NodeLink
from llmgw.net.h2_link import IncomingLink, LinkFigures, serve_links
from llmgw.net.h2_stream import StreamBroken
from llmgw.net.tls_contexts import server_context
from llmgw.obs.log import get
from llmgw.wire.agent import (
    CONNECT_PATH,
    PROTOCOL,
    BadMessage,
    Command,
    ControlPlanes,
    Heartbeat,
    LogsReply,
    LogsRequest,
    Register,
    Registered,
    ShardStatus,
    StopShard,
    UnknownTag,
    decode_agent,
    is_node_id,
)
from llmgw.wire.agent_frames import BadFlag, FrameTooLarge

__all__ = ["AgentLinks", "LinkEvents"]

LEADERSHIP_CHECK_S = 0.25
REVOCATION_CHECK_S = 30.0
SERVERS_CHECK_S = 1.0
GOODBYE_S = 2.0
LOGS_S = 10.0
MAX_LOG_LINES = 5000


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


Revoked = Callable[[str, str, float], str | None]
"""(common name, serial in lower-case hex, issued at Unix seconds) -> why this certificate no longer counts, or None."""


def _nothing_revoked(common_name: str, serial: str, issued_unix: float) -> str | None:
    return None


class AgentLinks:
    """The agents' port. Raises Refused for TLS files that cannot be used."""

    def __init__(
        self,
        events: LinkEvents,
        *,
        control_plane: str,
        tls: TLSFiles | None,
        term: Callable[[], int],
        leading: Callable[[], bool],
        servers: Callable[[], Sequence[str]],
        revoked: Revoked = _nothing_revoked,
        leader_hint: Callable[[], str] = str,
        heartbeat_interval_ms: int = 0,
        figures: LinkFigures | None = None,
    ) -> None:
        """`control_plane` is this one's name; `servers` the addresses agents may dial (P-72); `term` the fencing term.

        `tls` None serves h2c, which the caller allows only with `agent_insecure` (P-9).
        """
        self._events = events
        self._control_plane = control_plane
        self._tls = server_context(tls.ca, tls.cert, tls.key) if tls is not None else None
        self._term = term
        self._leading = leading
        self._servers = servers
        self._revoked = revoked
        self._leader_hint = leader_hint
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._figures = figures or LinkFigures()
        self._links: dict[str, NodeLink] = {}
        self._log = get("control.links")

    async def serve(
        self, listeners: Sequence[Any], *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve listeners of `net.listeners` until cancelled; then every agent hears `Bye{shutdown}` first."""
        hold = anyio.CancelScope(shield=True)
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._serve_shielded, list(listeners), hold)
            task_status.started()
            try:
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await self.end_all("shutdown", "this control plane is stopping")
                hold.cancel()

    async def end_all(self, code: str, reason: str) -> None:
        """End every link with a Bye of `code`, waiting at most 2 s for the agents to take it (P-25)."""
        links = list(self._links.values())
        for link in links:
            link.end(code, reason)
        with anyio.move_on_after(GOODBYE_S):
            for link in links:
                await link.gone.wait()

    def connected(self) -> frozenset[str]:
        """Return the ids of the nodes that have a registered link now."""
        return frozenset(self._links)

    def send(self, node_id: str, command: Command, trace: dict[str, str] | None = None) -> bool:
        """Queue a command; False when the node has no link, or does not read what it is sent."""
        link = self._links.get(node_id)
        return link is not None and link.queue(command, self._term(), trace or {})

    async def logs(self, node_id: str, shard_id: str, lines: int, wait_s: float = LOGS_S) -> LogsReply:
        """Ask an agent for log lines of a shard ("" = its own). Raises Refused(503) naming what did not answer."""
        link = self._links.get(node_id)
        if link is None:
            raise Refused(503, f"node {node_id} is not connected; its logs can be read on the machine itself")
        request_id = secrets.token_hex(8)
        with link.expecting(request_id) as reply:
            request = LogsRequest(request_id=request_id, shard_id=shard_id, lines=min(lines, MAX_LOG_LINES))
            if not link.queue(request, self._term(), {}):
                raise Refused(503, f"node {node_id} does not read its commands; try again")
            with anyio.move_on_after(wait_s):
                await reply.arrived.wait()
        if reply.value is None:
            raise Refused(
                503, f"node {node_id} did not answer within {wait_s:g} s or lost its link; try again"
            )
        return reply.value

    async def _serve_shielded(
        self, listeners: list[Any], hold: anyio.CancelScope, *, task_status: TaskStatus[None]
    ) -> None:
        with hold:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._notice_lost_leadership)
                tasks.start_soon(self._notice_revocations)
                tasks.start_soon(self._notice_new_servers)
                await serve_links(
                    listeners,
                    self._supervised,
                    tls=self._tls,
                    figures=self._figures,
                    on_problem=lambda peer, words: self._log.warning(
                        "agent connection", peer=peer, error=words
                    ),
                    task_status=task_status,  # type: ignore[arg-type]
                )

    async def _notice_lost_leadership(self) -> None:
        """End the links of a leader that no longer leads, so that its nodes appear at the next one (P-25)."""
        while True:
            await anyio.sleep(LEADERSHIP_CHECK_S)
            if self._links and not self._leading():
                await self.end_all("not_leader", "this control plane no longer leads")

    async def _notice_new_servers(self) -> None:
        """Send the list of control planes again whenever it changes (P-70)."""
        known = list(self._servers())
        while True:
            await anyio.sleep(SERVERS_CHECK_S)
            servers = list(self._servers())
            if servers != known:
                known = servers
                for link in self._links.values():
                    link.queue(ControlPlanes(servers=servers), self._term(), {})

    async def _notice_revocations(self) -> None:
        while True:
            await anyio.sleep(REVOCATION_CHECK_S)
            for link in list(self._links.values()):
                reason = self._revoked(link.node_id, link.serial, link.issued_unix)
                if reason is not None:
                    link.end("revoked", reason)

    async def _supervised(self, incoming: IncomingLink) -> None:
        """Carry one request; a fault in a handler ends that link only."""
        try:
            if await self._judge(incoming):
                await self._welcome(incoming)
        except StreamBroken:
            raise
        except Exception as error:
            self._log.error("a fault ended an agent's link", peer=incoming.peer_address, exc_info=error)

    async def _judge(self, incoming: IncomingLink) -> bool:
        """Answer by status what certificate and headers tell (P-2); True when the link may begin."""
        status, words = self._judgement(incoming)
        if status == 200:
            incoming.accept()
            return True
        self._log.warning("refused an agent", peer=incoming.peer_address, status=status, error=words)
        hint = self._leader_hint() if status == 503 else ""
        await incoming.refuse(status, words, [("llmgw-leader", hint)] if hint else [])
        return False

    def _judgement(self, incoming: IncomingLink) -> tuple[int, str]:
        said = incoming.headers.get("llmgw-node", "")
        if incoming.path != CONNECT_PATH:
            return 404, f"nothing is served at {incoming.path[:200]}; agents connect at {CONNECT_PATH}"
        if incoming.method != "POST":
            return 405, f"agents connect with POST, not {incoming.method[:20]}"
        if self._tls is not None and incoming.common_name != said:
            return 403, f"certificate is for node {incoming.common_name}, the agent says {said[:128]}"
        if not is_node_id(said):
            return 403, f"{said[:128]!r} cannot be a node's id: 1 to 63 of a-z, 0-9, '.', '_', '-'"
        reason = self._revoked(said, incoming.serial, incoming.issued_unix) if self._tls is not None else None
        if reason is not None:
            return 403, f"the certificate of node {said} is revoked: {reason}"
        protocol = incoming.headers.get("llmgw-protocol", PROTOCOL)
        if protocol != PROTOCOL:
            return 400, f"this control plane speaks protocol {PROTOCOL}, the agent {protocol[:20]}"
        if not self._leading():
            return 503, "this control plane does not lead"
        return 200, ""

    async def _welcome(self, incoming: IncomingLink) -> None:
        link = NodeLink(incoming.headers["llmgw-node"], incoming)
        try:
            async with anyio.create_task_group() as tasks:
                link.scope = tasks.cancel_scope
                tasks.start_soon(link.send_queued)
                await self._talk(link)
                tasks.cancel_scope.cancel()
        finally:
            link.close()
            if self._links.get(link.node_id) is link:
                del self._links[link.node_id]
                self._events.on_link_lost(link.node_id)
        await link.say_goodbye(self._term(), GOODBYE_S)
        self._log.info("agent link ended", node=link.node_id, peer=incoming.peer_address, reason=link.reason)

    async def _talk(self, link: NodeLink) -> None:
        """Take Register and everything after it, until the link ends for `link.reason`."""
        try:
            register = await self._first_message(link)
            if register is not None:
                self._admit(link, register)
            while not link.is_ending():
                document = await link.stream.receive_document()
                if document is None:
                    link.reason = link.reason or "the agent ended the stream"
                    return
                self._take(link, document)
        except FrameTooLarge as error:
            self._log.warning("reset an agent's stream", node=link.node_id, error=str(error))
            link.reset(str(error), calm=True)
        except BadFlag as error:
            self._log.warning("reset an agent's stream", node=link.node_id, error=str(error))
            link.reset(str(error), calm=False)
        except StreamBroken as error:
            link.reason = link.reason or error.reason

    async def _first_message(self, link: NodeLink) -> Register | None:
        """Return the Register, or None after ending the link with the Bye that says what came instead (P-20)."""
        document = None
        with anyio.move_on_after(self._figures.register_s):
            document = await link.stream.receive_document()
        if document is None:
            link.end("bad_message", f"no register came within {self._figures.register_s:g} s")
            return None
        try:
            message = decode_agent(document)
        except UnknownTag as error:
            link.end("bad_message", f"the first message was {error.tag}, not register")
            return None
        except BadMessage as error:
            link.end("bad_message", str(error))
            return None
        if not isinstance(message, Register):
            link.end("bad_message", f"the first message was {type(message).__name__.lower()}, not register")
            return None
        return message

    def _admit(self, link: NodeLink, register: Register) -> None:
        """Make this the node's link: Registered and ControlPlanes leave first, whatever the leader sends (P-20)."""
        node_id = link.node_id
        if register.node_id != node_id:
            said = register.node_id
            link.end("forbidden", f"certificate is for node {node_id}, the agent says {said}")
            self._log.warning("refused an agent", node=node_id, error=link.reason)
            return
        if not self._leading():
            link.end("not_leader", "this control plane no longer leads")
            return
        older = self._links.get(node_id)
        self._links[node_id] = link
        if older is not None:
            older.end("replaced", "a newer link of this node took its place")
        term = self._term()
        answer = Registered(
            node_id=node_id,
            control_plane=self._control_plane,
            leader=True,
            term=term,
            heartbeat_interval_ms=self._heartbeat_interval_ms,
        )
        link.queue(answer, term, {})
        link.queue(ControlPlanes(servers=list(self._servers())), term, {})
        self._log.info("agent registered", node=node_id, peer=link.peer_address, version=register.version)
        for shard_id in self._events.on_register(node_id, register, link.peer_address):
            link.queue(StopShard(shard_id=shard_id, reason="nothing wants this shard any more"), term, {})

    def _take(self, link: NodeLink, document: bytes) -> None:
        try:
            message = decode_agent(document)
        except UnknownTag as unknown:
            if link.is_new_tag(unknown.tag):
                self._log.info(
                    "skipped an agent's messages of an unknown kind", node=link.node_id, tag=unknown.tag
                )
            return
        except BadMessage as error:
            self._log.warning("an agent sent a bad message", node=link.node_id, error=str(error))
            link.end("bad_message", str(error))
            return
        if isinstance(message, Heartbeat):
            if link.is_next(message.seq):
                self._events.on_heartbeat(link.node_id, message)
        elif isinstance(message, ShardStatus):
            self._events.on_shard(link.node_id, message)
        elif isinstance(message, LogsReply):
            link.answer(message)
        else:
            link.end("bad_message", "register came a second time on this link")
