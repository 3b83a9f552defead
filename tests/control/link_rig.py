"""What the link's tests share: certificates of two authorities, both sides' stand-ins, and a raw HTTP/2 client.

The client drives h2 itself over Trio's own TLS, with nothing of llmgw in between, so that it can send what an agent
never would.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import h2.config
import h2.connection
import h2.events
import trio

from llmgw.config.agent import AgentConfig
from llmgw.config.server import TLSFiles
from llmgw.control.links import AgentLinks
from llmgw.net.h2_connection import Keepalive, StreamLimits
from llmgw.net.h2_link import LinkFigures
from llmgw.ops import pki
from llmgw.wire.agent import (
    Bye,
    Command,
    Control,
    Heartbeat,
    Register,
    ShardStatus,
    decode_control,
    encode,
)
from llmgw.wire.agent_frames import FrameDecoder, frame

# Generous where a busy machine would otherwise fail a test; short only where every test would wait it out.
QUICK = LinkFigures(
    dial_s=10.0,
    answer_s=10.0,
    register_s=10.0,
    handshake_s=10.0,
    keepalive=Keepalive(10.0, 10.0),
    limits=StreamLimits(idle_s=10.0),
    linger_s=0.5,
)


@dataclass(frozen=True)
class Papers:
    """Certificates of one authority: a server for 127.0.0.1, one for a foreign name, and nodes."""

    server: TLSFiles
    elsewhere: TLSFiles
    nodes: dict[str, TLSFiles]
    kept: TemporaryDirectory[str]
    """The folder of the files, gone with the test run."""


@cache
def papers(which: str = "ours") -> Papers:
    """Make them once per test run; `which` names the authority."""
    kept = TemporaryDirectory(prefix=f"llmgw-{which}-")
    folder = Path(kept.name)
    pki.init_ca(folder / "ca")

    def files(written: pki.PemFiles) -> TLSFiles:
        return TLSFiles(ca=str(written.ca), cert=str(written.cert), key=str(written.key))

    return Papers(
        files(pki.issue_server(folder / "ca", "cp-1", ["127.0.0.1"], folder / "server")),
        files(pki.issue_server(folder / "ca", "cp-2", ["elsewhere.example"], folder / "elsewhere")),
        {node: files(pki.issue_agent(folder / "ca", node, folder / "nodes")) for node in ("n1", "n2")},
        kept,
    )


@dataclass
class FakeLeader:
    """Takes what links tell and writes it down."""

    heard: list[tuple[str, Any]] = field(default_factory=list)
    unclaimed: list[str] = field(default_factory=list)
    is_leading: bool = True
    term: int = 1
    during_register: Callable[[], None] = lambda: None

    def on_register(self, node_id: str, register: Register, peer_address: str) -> Sequence[str]:
        self.heard.append(("register", (node_id, register, peer_address)))
        self.during_register()
        return self.unclaimed

    def on_heartbeat(self, node_id: str, heartbeat: Heartbeat) -> None:
        self.heard.append(("heartbeat", (node_id, heartbeat.seq)))

    def on_shard(self, node_id: str, status: ShardStatus) -> None:
        self.heard.append(("shard", (node_id, status.shard_id)))

    def on_link_lost(self, node_id: str) -> None:
        self.heard.append(("lost", node_id))

    def kinds(self) -> list[str]:
        """Return what was heard, in order, without the particulars."""
        return [kind for kind, _ in self.heard]


@dataclass
class Server:
    """A running agents' port."""

    port: int
    leader: FakeLeader
    links: AgentLinks
    stop: Callable[[], None]


@asynccontextmanager
async def serving(
    leader: FakeLeader | None = None,
    *,
    tls: TLSFiles | None = None,
    is_insecure: bool = False,
    port: int = 0,
    figures: LinkFigures = QUICK,
    **more: Any,
) -> AsyncIterator[Server]:
    """Serve agents on loopback for as long as the block lasts."""
    leader = leader or FakeLeader()
    listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
    bound: int = listeners[0].socket.getsockname()[1]
    links = AgentLinks(
        leader,
        control_plane="cp-1",
        tls=None if is_insecure else tls or papers().server,
        term=lambda: leader.term,
        leading=lambda: leader.is_leading,
        figures=figures,
        **{"servers": lambda: [f"127.0.0.1:{bound}"], **more},
    )
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def serve(task_status: trio.TaskStatus[None]) -> None:
            with scope:
                await links.serve(listeners, task_status=task_status)

        await nursery.start(serve)
        try:
            yield Server(bound, leader, links, scope.cancel)
        finally:
            scope.cancel()


class RawClient:
    """An HTTP/2 client that says whatever a test wants said."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.reset_code: int | None = None
        self.is_ended = False
        self.is_closed = False
        self.reads_data = True
        self._decoder = FrameDecoder()

    async def request(
        self, path: str = "/agent/v1/connect", node: str | None = "n1", method: str = "POST", **more: str
    ) -> None:
        """Send the request's headers on stream 1."""
        headers = [(":method", method), (":scheme", "https"), (":authority", "cp"), (":path", path)]
        if node is not None:
            headers.append(("llmgw-node", node))
        headers += [
            ("llmgw-protocol", "1"),
            *((name.replace("_", "-"), value) for name, value in more.items()),
        ]
        self.h2.send_headers(self.h2.get_next_available_stream_id(), headers)
        await self.flush()

    async def flush(self) -> None:
        await self._stream.send_all(self.h2.data_to_send())

    async def send(self, data: bytes, piece: int = 16_000) -> None:
        """Send bytes of the stream's body, cut into DATA frames of `piece` bytes."""
        for at in range(0, len(data), piece):
            self.h2.send_data(1, data[at : at + piece])
        await self.flush()

    async def say(self, message: Any) -> None:
        await self.send(frame(encode(message)))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Read until a condition holds or the server hung up; twenty seconds at most."""
        with trio.fail_after(20):
            while not condition() and not self.is_closed:
                await self._read()

    async def control(self) -> Control | None:
        """Return the next message, or None at the stream's end."""
        with trio.fail_after(20):
            while True:
                self._decoder.feed(self.body)
                self.body = b""
                document = self._decoder.next_document()
                if document is not None:
                    return decode_control(document)
                if self.is_ended or self.is_closed or self.reset_code is not None:
                    return None
                await self._read()

    async def command(self) -> Command:
        """Return the next message's content."""
        control = await self.control()
        assert control is not None
        return control.msg

    async def bye(self) -> Bye:
        """Read up to the Bye, and see that it is the last thing on the stream."""
        while not isinstance(message := await self.command(), Bye):
            pass
        assert await self.control() is None
        assert self.is_ended
        return message

    async def answer(self) -> tuple[int, bytes]:
        """Return status and body of a refusal."""
        await self.until(lambda: self.is_ended)
        return self.status, self.body

    async def _read(self) -> None:
        try:
            data = await self._stream.receive_some(65_536)
        except trio.BrokenResourceError:
            data = b""
        if not data:
            self.is_closed = True
            return
        for event in self.h2.receive_data(bytes(data)):
            self._take(event)
        if self.reads_data:
            await self.flush()

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            self.headers = {str(name): str(value) for name, value in event.headers}
            self.status = int(self.headers[":status"])
        elif isinstance(event, h2.events.DataReceived):
            self.body += event.data
            if self.reads_data:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.reset_code = int(event.error_code)
        elif isinstance(event, h2.events.StreamEnded):
            self.is_ended = True
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.is_closed = True


def client_tls(files: TLSFiles, alpn: Sequence[str] = ("h2",)) -> ssl.SSLContext:
    """Return a client's context built without llmgw."""
    context = ssl.create_default_context(cafile=files.ca)
    context.load_cert_chain(files.cert, files.key)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


@asynccontextmanager
async def raw_client(
    port: int, node: str | None = "n1", context: ssl.SSLContext | None = None
) -> AsyncIterator[RawClient]:
    """Connect with a node's certificate (None: in clear)."""
    tcp = await trio.open_tcp_stream("127.0.0.1", port)
    stream: trio.abc.Stream = tcp
    if node is not None:
        tls = context or client_tls(papers().nodes[node])
        stream = trio.SSLStream(tcp, tls, server_hostname="127.0.0.1", https_compatible=True)
    try:
        yield RawClient(stream)
    finally:
        await trio.aclose_forcefully(stream)


async def until(condition: Callable[[], object], within_s: float = 20.0) -> None:
    """Wait for a condition in this process, a look at a time."""
    with anyio.fail_after(within_s):
        while not condition():
            await anyio.sleep(0.005)


class FakeNode:
    """A node's side: describes itself and writes down what it is told."""

    def __init__(self, node_id: str = "n1", **facts: Any) -> None:
        self.node_id = node_id
        self.facts = facts
        self.commands: list[Command] = []
        self.traces: list[dict[str, str]] = []
        self.registered = 0
        self.watched: list[str] = []
        self.outboxes: list[Any] = []
        self.beats: list[int] = []

    async def register(self) -> Register:
        self.registered += 1
        return Register(node_id=self.node_id, **self.facts)

    async def heartbeat(self, seq: int) -> Heartbeat:
        self.beats.append(seq)
        return Heartbeat(node_id=self.node_id, seq=seq)

    def on_command(self, message: Command, trace: dict[str, str], outbox: Any) -> None:
        self.commands.append(message)
        self.traces.append(trace)
        self.outboxes.append(outbox)

    async def watch(self, outbox: Any, registered: Register) -> None:
        self.watched.append("began")
        try:
            await anyio.sleep_forever()
        finally:
            self.watched.append("ended")


def agent_config(
    servers: Sequence[str], state_dir: Path, tls: TLSFiles | None = None, **more: Any
) -> AgentConfig:
    """Return an agent's configuration with node n1's certificate."""
    return AgentConfig(
        servers=list(servers),
        tls=tls or papers().nodes["n1"],
        state_dir=str(state_dir),
        heartbeat_interval=0.05,
        **more,
    )
