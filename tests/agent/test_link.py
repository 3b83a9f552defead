"""The agent's link against a real agents' port: identity, order, silence, failover, refusals in words."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from llmgw.agent.link import AgentLink, LinkEnded, node_id_of
from llmgw.config.agent import AgentConfig
from llmgw.config.refusal import Refused
from llmgw.config.server import TLSFiles
from llmgw.control.links import LEADERSHIP_CHECK_S
from llmgw.net.h2_link import LinkFigures
from llmgw.wire.agent import (
    ControlPlanes,
    LogsReply,
    LogsRequest,
    RunningShard,
    ShardStatus,
    StartShard,
    StopShard,
)
from tests.control.link_rig import QUICK, FakeLeader, FakeNode, agent_config, papers, serving, until


@asynccontextmanager
async def linked(
    tmp_path: Path,
    servers: Sequence[str],
    node: FakeNode | None = None,
    *,
    tls: TLSFiles | None = None,
    figures: LinkFigures = QUICK,
    **more: Any,
) -> AsyncIterator[FakeNode]:
    """Run an agent's link for as long as the block lasts."""
    node = node or FakeNode()
    config = agent_config(servers, tmp_path, tls, **more)
    link = AgentLink(config, node, node_id=node.node_id, version="0.1.0", figures=figures, jitter=lambda: 0.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.run)
        try:
            yield node
        finally:
            nursery.cancel_scope.cancel()


def _at(port: int) -> str:
    return f"127.0.0.1:{port}"


def _warnings(logs: list[Any]) -> list[Any]:
    return [line for line in logs if line["log_level"] == "warning" and line.get("logger") == "agent.link"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(main: Callable[[], Awaitable[None]], *, within_s: float = 90.0) -> None:
    """Run a test's body with an end to it."""

    async def bounded() -> None:
        with trio.fail_after(within_s):
            await main()

    trio.run(bounded)


@pytest.mark.covers("P-1")
def test_the_agent_dials_registers_and_sends_heartbeats_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving() as server, linked(tmp_path, [_at(server.port)]) as node:
            await until(lambda: len(server.leader.heard) >= 4)
            assert server.leader.kinds()[:4] == ["register", "heartbeat", "heartbeat", "heartbeat"]
            seqs = [what[1] for kind, what in server.leader.heard if kind == "heartbeat"]
            assert seqs == list(range(1, len(seqs) + 1))
            assert node.watched == ["began"]
            # Registering once before the first dial lets the node finish its probe of engines.
            assert node.registered == 2

    run(main)
    assert AgentConfig().heartbeat_interval == 5.0
    from llmgw.config.server import ServerConfig

    assert ServerConfig().agent_listen == ":7443"


def test_the_control_planes_interval_is_taken_over(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(heartbeat_interval_ms=10) as server:
            slow = AgentConfig(
                servers=[_at(server.port)],
                tls=papers().nodes["n1"],
                state_dir=str(tmp_path),
                heartbeat_interval=0.2,
            )
            link = AgentLink(slow, node := FakeNode(), node_id="n1", version="0", figures=QUICK)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(link.run)
                await until(lambda: len(node.beats) > 20)
                nursery.cancel_scope.cancel()

    run(main)


def test_commands_reach_the_node_with_their_trace_and_answers_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving() as server, linked(tmp_path, [_at(server.port)]) as node:
            await until(server.links.connected)
            server.links.send("n1", StartShard(shard_id="s"), {"traceparent": "00-1-2-01"})
            await until(lambda: node.commands)
            assert (node.commands, node.traces) == (
                [StartShard(shard_id="s")],
                [{"traceparent": "00-1-2-01"}],
            )
            await node.outboxes[0].send(ShardStatus(shard_id="s"))
            await until(lambda: ("shard", ("n1", "s")) in server.leader.heard)

            async def answer() -> None:
                await until(lambda: isinstance(node.commands[-1], LogsRequest))
                await node.outboxes[0].send(
                    LogsReply(request_id=node.commands[-1].request_id, lines=["x" * 900_000])
                )

            async with trio.open_nursery() as nursery:
                nursery.start_soon(answer)
                assert len((await server.links.logs("n1", "s", 5)).lines[0]) == 900_000

    run(main)


@pytest.mark.covers("P-22")
def test_register_is_sent_whole_on_every_link(tmp_path: Path) -> None:
    async def main() -> None:
        node = FakeNode(running_shards=[RunningShard(shard_id="s-0")], labels={"a": "b"})
        async with serving() as server, linked(tmp_path, [_at(server.port)], node):
            await until(server.links.connected)
            server.links._links["n1"].end("not_leader", "for the test")
            await until(lambda: server.leader.kinds().count("register") == 2)
            first, second = [what[1] for kind, what in server.leader.heard if kind == "register"]
            assert first == second
            assert first.running_shards == [RunningShard(shard_id="s-0")]

    run(main)


def test_what_outlives_a_link_learns_that_it_ended(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving() as server, linked(tmp_path, [_at(server.port)]) as node:
            await until(server.links.connected)
            server.links.send("n1", StopShard(shard_id="s"))
            await until(lambda: node.outboxes)
            server.links._links["n1"].end("not_leader", "for the test")
            await until(lambda: "ended" in node.watched)
            with pytest.raises(LinkEnded):
                await node.outboxes[0].send(ShardStatus())
            await until(lambda: node.watched == ["began", "ended", "began"])

    run(main)


@pytest.mark.covers("P-7")
def test_the_right_authority_with_a_wrong_name_is_refused_with_the_name_in_the_error(tmp_path: Path) -> None:
    async def main() -> None:
        with capture_logs() as logs:
            async with serving(tls=papers().elsewhere) as server, linked(tmp_path, [_at(server.port)]):
                await until(lambda: _warnings(logs))
                assert server.leader.heard == []
        assert "not valid for '127.0.0.1'" in _warnings(logs)[0]["error"]

    run(main)


@pytest.mark.covers("P-5")
def test_only_our_own_authority_is_trusted_by_either_side_and_only_for_its_purpose(tmp_path: Path) -> None:
    ours, theirs = papers(), papers("theirs")
    mixed = TLSFiles(ca=ours.server.ca, cert=theirs.nodes["n1"].cert, key=theirs.nodes["n1"].key)
    server_as_agent = TLSFiles(ca=ours.server.ca, cert=ours.server.cert, key=ours.server.key)
    agent_as_server = TLSFiles(ca=ours.server.ca, cert=ours.nodes["n2"].cert, key=ours.nodes["n2"].key)

    async def refused(server_tls: TLSFiles, agent_tls: TLSFiles) -> str:
        with capture_logs() as logs:
            async with serving(tls=server_tls) as server, linked(tmp_path, [_at(server.port)], tls=agent_tls):
                await until(lambda: _warnings(logs))
                assert server.leader.heard == []
        return str(_warnings(logs)[0]["error"])

    async def main() -> None:
        assert "certificate verify failed" in await refused(theirs.server, ours.nodes["n1"])
        assert "alert" in (await refused(ours.server, mixed)).lower()
        assert "alert" in (await refused(ours.server, server_as_agent)).lower()
        assert "certificate verify failed" in await refused(agent_as_server, ours.nodes["n1"])
        # No certificate at all and TLS 1.1: tests/net/test_tls_contexts.py. No ALPN: tests/net/test_h2_link.py.

    run(main)


def test_mixed_forms_are_a_configuration_error_and_without_tls_the_link_is_in_clear(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="'http://cp-1' is http"):
        AgentLink(agent_config(["http://cp-1"], tmp_path), FakeNode(), node_id="n1", version="0")
    bare = AgentConfig(servers=["https://cp-1"], state_dir=str(tmp_path))
    with pytest.raises(Refused, match="'https://cp-1' is https"):
        AgentLink(bare, FakeNode(), node_id="n1", version="0")

    async def main() -> None:
        async with serving(is_insecure=True) as server:
            config = AgentConfig(servers=[_at(server.port)], state_dir=str(tmp_path), heartbeat_interval=0.05)
            link = AgentLink(config, FakeNode(), node_id="n1", version="0", figures=QUICK)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(link.run)
                await until(server.links.connected)
                nursery.cancel_scope.cancel()

    run(main)


def test_tls_files_that_cannot_be_used_are_refused_at_once(tmp_path: Path) -> None:
    missing = TLSFiles(ca=str(tmp_path / "no.pem"), cert="x", key="y")
    with pytest.raises(Refused, match=r"no\.pem"):
        AgentLink(agent_config(["cp-1"], tmp_path, missing), FakeNode(), node_id="n1", version="0")


_FROZEN = """
import sys, trio
from llmgw.control.links import AgentLinks
from llmgw.config.server import TLSFiles
from llmgw.control.links import LEADERSHIP_CHECK_S

class Leader:
    def on_register(self, *_): return []
    def on_heartbeat(self, *_): pass
    on_shard = on_link_lost = on_heartbeat

async def main():
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    print(listeners[0].socket.getsockname()[1], flush=True)
    tls = TLSFiles(ca=sys.argv[1], cert=sys.argv[2], key=sys.argv[3])
    await AgentLinks(Leader(), control_plane="cp", tls=tls, term=lambda: 0, leading=lambda: True,
                     servers=list).serve(listeners)

trio.run(main)
"""


@pytest.mark.covers("P-11")
def test_a_control_plane_that_is_frozen_is_noticed_within_sixteen_seconds(tmp_path: Path) -> None:
    """With the figures in force and a process that SIGSTOP holds; once it is held, the clock jumps over the silence."""
    files = papers().server
    server = subprocess.Popen(
        [sys.executable, "-c", _FROZEN, files.ca, files.cert, files.key], stdout=subprocess.PIPE, text=True
    )
    clock = trio.testing.MockClock(rate=1.0)

    async def main() -> None:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        node = FakeNode()
        config = AgentConfig(servers=[_at(port)], tls=papers().nodes["n1"], state_dir=str(tmp_path))
        link = AgentLink(config, node, node_id="n1", version="0", jitter=lambda: 0.0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.run)
            await until(lambda: node.beats, 60.0)
            server.send_signal(signal.SIGSTOP)
            began_s = trio.current_time()
            clock.rate = 0.0
            clock.autojump_threshold = 0.02
            with trio.fail_after(60):
                while "ended" not in node.watched:
                    await trio.sleep(0.5)
            assert 9.0 < trio.current_time() - began_s <= 16.0
            nursery.cancel_scope.cancel()

    try:
        trio.run(main, clock=clock)
    finally:
        server.kill()
        server.wait()


@pytest.mark.covers("P-13")
def test_a_blackhole_first_in_the_list_costs_the_dial_bound_and_no_more(tmp_path: Path) -> None:
    """One address whose machine drops connection requests, one that accepts and never shakes hands."""
    dropping, mute = socket.socket(), socket.socket()
    fillers = [socket.socket() for _ in range(3)]
    for listener in (dropping, mute):
        listener.bind(("127.0.0.1", 0))
    dropping.listen(0)
    mute.listen(8)
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex(dropping.getsockname())
    holes = [_at(listener.getsockname()[1]) for listener in (dropping, mute)]

    async def main() -> None:
        quick = LinkFigures(dial_s=0.3)
        with capture_logs() as logs:
            async with serving() as server, linked(tmp_path, [*holes, _at(server.port)], figures=quick):
                await until(server.links.connected)
        assert [line["error"] for line in _warnings(logs)] == ["no connection within 0.3 s"] * 2
        assert [line["delay_ms"] for line in _warnings(logs)] == [0, 0]

    try:
        run(main)
    finally:
        for each in (dropping, mute, *fillers):
            each.close()
    assert LinkFigures().dial_s == 5.0


@pytest.mark.covers("P-24", "P-25")
def test_agents_pass_a_standby_by_and_follow_the_lead_when_it_moves(tmp_path: Path) -> None:
    async def main() -> None:
        one, two = FakeLeader(is_leading=False), FakeLeader()
        async with serving(one) as first, serving(two) as second:
            servers = [_at(first.port), _at(second.port)]
            async with linked(tmp_path, servers) as node:
                await until(second.links.connected)
                assert one.heard == []
                two.is_leading = False
                one.is_leading, one.term = True, 2
                await until(first.links.connected)
                await until(lambda: second.links.connected() == frozenset())
                assert node.watched.count("began") == 2

    run(main)
    # It looks this often and says goodbye at once, so the two seconds of P-25 hold.
    assert LEADERSHIP_CHECK_S <= 0.5


@pytest.mark.covers("P-27")
def test_the_third_of_three_failovers_is_as_quick_as_the_first(tmp_path: Path) -> None:
    async def main() -> None:
        port = _free_port()
        async with linked(tmp_path, [_at(port)]):
            for _ in range(4):
                with capture_logs() as logs:
                    async with serving(port=port) as server:
                        await until(server.links.connected)
                # What was waited since the last control plane went, whatever the machine itself took.
                waited_ms = [line["delay_ms"] for line in _warnings(logs)]
                assert all(delay_ms <= 2000 for delay_ms in waited_ms)
                assert waited_ms[-1] == 500

    run(main)


@pytest.mark.covers("P-28")
def test_every_failed_attempt_is_one_warning_that_says_what_comes_next(tmp_path: Path) -> None:
    async def main() -> None:
        dead = _at(_free_port())
        async with serving() as server:
            with capture_logs() as logs:
                node = FakeNode("n2")
                async with linked(tmp_path, [dead, _at(server.port)], node, tls=papers().nodes["n1"]):
                    await until(lambda: len(_warnings(logs)) >= 2)
        failed, refused = _warnings(logs)[:2]
        assert "refused" in failed["error"].lower()
        assert (failed["server"], failed["next_server"]) == (f"https://{dead}", f"https://{_at(server.port)}")
        assert (failed["delay_ms"], failed["attempt"]) == (0, 1)
        assert "certificate is for node n1, the agent says n2" in refused["error"]
        assert (refused["attempt"], refused["delay_ms"]) == (2, 30_000)

    run(main)


@pytest.mark.covers("P-18")
def test_a_goodbye_is_logged_and_answered_by_the_next_dial_or_by_the_longest_delay(tmp_path: Path) -> None:
    """The control plane's side, Bye as the last thing on the stream, is in tests/control/test_links.py."""

    async def main() -> None:
        for code, delay_ms in (
            ("not_leader", 500),
            ("shutdown", 500),
            ("replaced", 500),
            ("bad_message", 500),
        ) + (
            ("forbidden", 30_000),
            ("revoked", 30_000),
        ):
            with capture_logs() as logs:
                async with serving() as server, linked(tmp_path, [_at(server.port)]):
                    await until(server.links.connected)
                    server.links._links["n1"].end(code, "because of the test")
                    await until(lambda: _warnings(logs))
            line = _warnings(logs)[0]
            assert code in line["error"]
            assert "because of the test" in line["error"]
            assert line["delay_ms"] == delay_ms

    run(main)


@pytest.mark.covers("P-44")
def test_a_lower_term_than_was_seen_is_refused_and_ends_the_link_with_the_reason(tmp_path: Path) -> None:
    async def main() -> None:
        leader = FakeLeader(term=5)
        with capture_logs() as logs:
            async with serving(leader) as server, linked(tmp_path, [_at(server.port)]) as node:
                await until(server.links.connected)
                server.links.send("n1", StopShard(shard_id="of term 5"), {"traceparent": "00-a-b-01"})
                await until(lambda: node.commands)
                assert node.traces == [{"traceparent": "00-a-b-01"}]
                leader.term = 4
                server.links.send("n1", StopShard(shard_id="of term 4"))
                await until(lambda: len(_warnings(logs)) >= 2)
                # The next link's Registered is of term 4 still: refused as well, though another task sent it.
                leader.term = 6
                server.links.send("n1", StopShard(shard_id="of term 6"))
                await until(lambda: leader.kinds().count("register") >= 3)
                await until(server.links.connected)
        for line in _warnings(logs)[:2]:
            assert "refused a command of term 4: this agent has seen term 5" in line["error"]
        assert StopShard(shard_id="of term 4") not in node.commands

    run(main)


@pytest.mark.covers("P-40")
def test_a_message_from_a_newer_control_plane_is_skipped_and_logged_once(tmp_path: Path) -> None:
    import msgspec

    async def main() -> None:
        with capture_logs() as logs:
            async with serving() as server, linked(tmp_path, [_at(server.port)]) as node:
                await until(server.links.connected)
                unknown = msgspec.msgpack.encode({"msg": {"t": "firewall", "enabled": True}, "term": 1})
                for _ in range(3):
                    await server.links._links["n1"].stream.send_document(unknown)
                server.links.send("n1", StopShard(shard_id="after"))
                await until(lambda: node.commands)
        assert [line["tag"] for line in logs if "tag" in line] == ["firewall"]

    run(main)


@pytest.mark.covers("P-70")
def test_a_named_control_plane_is_dialled_when_the_configured_one_goes(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving() as second:
            async with serving(servers=lambda: [_at(second.port), "nonsense:x"]) as first:
                async with linked(tmp_path, [_at(first.port)]):
                    await until(first.links.connected)
                    await until((tmp_path / "control-planes.json").exists)
                    first.stop()
                    await until(second.links.connected)

    run(main)


@pytest.mark.covers("P-16")
def test_a_control_plane_that_does_not_read_holds_the_agents_queue_at_its_bound(tmp_path: Path) -> None:
    async def main() -> None:
        gate = anyio.Event()

        class Stalled(FakeLeader):
            def on_register(self, *told: Any) -> Sequence[str]:
                super().on_register(*told)
                return []

        async with serving(Stalled()) as server, linked(tmp_path, [_at(server.port)]) as node:
            await until(server.links.connected)
            server.links.send("n1", StopShard(shard_id="first"))
            await until(lambda: node.outboxes)
            stream = server.links._links["n1"].stream
            receive = stream.receive_some

            async def stalled() -> bytes | None:
                await gate.wait()
                return await receive()

            stream.receive_some = stalled  # type: ignore[method-assign]
            outbox, queued = node.outboxes[0], 0
            with trio.move_on_after(1.0):
                while True:
                    await outbox.send(ShardStatus(shard_id="s", error="x" * 1000))
                    queued += 1
            # One window on the wire and at most two more in buffers, and 256 messages that wait.
            assert 256 <= queued <= 256 + 3 * 66
            # Commands still arrive: the receiver waits for nobody.
            server.links.send("n1", StopShard(shard_id="second"))
            await until(lambda: len(node.commands) == 2)
            # And a sender that waits gives up when the link ends.
            server.links._links["n1"].end("not_leader", "for the test")
            with pytest.raises(LinkEnded):
                while True:
                    await outbox.send(ShardStatus())
            gate.set()

    run(main)


def test_a_fault_of_the_nodes_own_costs_one_link(tmp_path: Path) -> None:
    class Faulty(FakeNode):
        async def heartbeat(self, seq: int) -> Any:
            if self.registered == 2:
                raise ZeroDivisionError
            return await super().heartbeat(seq)

    async def main() -> None:
        with capture_logs() as logs:
            async with serving() as server, linked(tmp_path, [_at(server.port)], Faulty()):
                await until(lambda: "heartbeat" in server.leader.kinds())
        assert [line for line in logs if line["log_level"] == "error"]

    run(main)


def test_a_control_plane_that_never_answers_register_is_given_up(tmp_path: Path) -> None:
    class Mute(FakeLeader):
        def on_register(self, *_: Any) -> Sequence[str]:
            raise AssertionError

    async def main() -> None:
        quick = LinkFigures(answer_s=0.2)
        with capture_logs() as logs:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            from llmgw.net.h2_link import IncomingLink, serve_links
            from llmgw.net.tls_contexts import server_context

            async def accept_only(incoming: IncomingLink) -> None:
                incoming.accept()
                await incoming.stream.closed_by_peer()

            files = papers().server
            async with trio.open_nursery() as nursery:
                tls = server_context(files.ca, files.cert, files.key)
                serve = lambda: serve_links(  # noqa: E731
                    listeners, accept_only, tls=tls, figures=QUICK, on_problem=lambda *_: None
                )
                nursery.start_soon(serve)
                port = listeners[0].socket.getsockname()[1]
                async with linked(tmp_path, [_at(port)], figures=quick):
                    await until(lambda: _warnings(logs))
                nursery.cancel_scope.cancel()
        assert "no answer to Register within 0.2 s" in _warnings(logs)[0]["error"]

    run(main)


def test_a_node_id_comes_from_agent_yaml_or_the_host_and_must_be_one() -> None:
    assert node_id_of(AgentConfig(node_id="n1"), "other") == "n1"
    assert node_id_of(AgentConfig(), "Box-7") == "box-7"
    with pytest.raises(Refused, match="set node_id in agent"):
        node_id_of(AgentConfig(), "my_host!")


@pytest.mark.covers("P-70")
def test_the_list_is_sent_after_registering_and_again_when_it_changes(tmp_path: Path) -> None:
    """What the agent makes of it, order and unreadable entries, is in tests/agent/test_control_planes.py."""
    named = ["cp-2"]

    async def main() -> None:
        kept = tmp_path / "control-planes.json"
        async with serving(servers=lambda: list(named)) as server, linked(tmp_path, [_at(server.port)]):
            await until(lambda: kept.exists() and kept.read_text() == '["cp-2"]')
            named.append("cp-3")
            await until(lambda: kept.read_text() == '["cp-2", "cp-3"]')
            assert server.leader.kinds().count("register") == 1

    run(main)


def test_the_leaders_list_may_be_empty(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(servers=list) as server, linked(tmp_path, [_at(server.port)]):
            await until(server.links.connected)
            assert server.links.send("n1", ControlPlanes(servers=[]))

    run(main)
