"""The agents' port as an HTTP/2 client sees it that is not ours."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from llmgw.config.refusal import Refused
from llmgw.net.h2_link import LinkFigures
from llmgw.wire.agent import (
    GPU,
    Bye,
    Control,
    ControlPlanes,
    Heartbeat,
    LogsReply,
    LogsRequest,
    Register,
    Registered,
    RunningShard,
    ShardStatus,
    StartShard,
    StopShard,
    encode,
)
from llmgw.wire.agent_frames import frame
from tests.control.link_rig import QUICK, FakeLeader, Server, client_tls, papers, raw_client, serving, until

ENHANCE_YOUR_CALM = 11


def _status(**request: Any) -> tuple[int, Any]:
    """Return status and body of one request to a leading control plane."""
    found: list[tuple[int, Any]] = []

    async def main() -> None:
        async with serving() as server, raw_client(server.port) as client:
            await client.request(**request)
            status, body = await client.answer()
            found.append((status, json.loads(body)["error"]))
            assert server.leader.heard == []

    trio.run(main)
    return found[0]


@pytest.mark.covers("P-2")
def test_what_certificate_and_headers_tell_is_answered_by_status() -> None:
    assert _status(path="/other")[0] == 404
    assert _status(node="n2") == (403, "certificate is for node n1, the agent says n2")
    assert _status(node=None)[0] == 403
    assert _status(llmgw_protocol="2", node="n2")[0] == 403

    async def standby() -> None:
        leader = FakeLeader(is_leading=False)
        async with serving(leader, leader_hint=lambda: "https://cp-2:7443") as server:
            async with raw_client(server.port) as client:
                await client.request()
                assert (await client.answer())[0] == 503
                assert client.headers["llmgw-leader"] == "https://cp-2:7443"
            assert leader.heard == []

    async def revoked() -> None:
        async with serving(revoked=lambda cn, serial, issued: f"{cn} was removed") as server:
            async with raw_client(server.port) as client:
                await client.request()
                status, body = await client.answer()
                assert (status, "n1 was removed" in body.decode()) == (403, True)

    async def accepted() -> None:
        async with serving() as server, raw_client(server.port) as client:
            await client.request()
            await client.until(lambda: client.status != 0)
            assert client.status == 200
            assert server.leader.heard == []
            await client.say(Register(node_id="n1"))
            assert isinstance(await client.command(), Registered)
            server.links._links["n1"].end("replaced", "for the test")
            assert (await client.bye()).code == "replaced"

    async def http1() -> None:
        for alpn in (["http/1.1"], []):
            async with serving() as server:
                tcp = await trio.open_tcp_stream("127.0.0.1", server.port)
                tls = client_tls(papers().nodes["n1"], alpn)
                stream = trio.SSLStream(tcp, tls, server_hostname="127.0.0.1", https_compatible=True)
                await stream.send_all(b"POST /agent/v1/connect HTTP/1.1\r\nhost: cp\r\n\r\n")
                assert (await stream.receive_some(999)).startswith(b"HTTP/1.1 505 ")
                await trio.aclose_forcefully(stream)

    for part in (standby, revoked, accepted, http1):
        trio.run(part)


def test_another_method_and_another_framing_are_refused() -> None:
    assert _status(method="GET")[0] == 405

    async def main() -> None:
        async with serving() as server, raw_client(server.port) as client:
            client.h2.send_headers(
                1,
                [
                    (":method", "POST"),
                    (":scheme", "https"),
                    (":authority", "cp"),
                    (":path", "/agent/v1/connect"),
                    ("llmgw-node", "n1"),
                    ("llmgw-protocol", "2"),
                ],
            )
            await client.flush()
            assert (await client.answer())[0] == 400

    trio.run(main)


@pytest.mark.covers("P-6")
def test_crossed_identities_are_refused_in_the_header_and_in_register_and_leave_no_trace() -> None:
    async def main() -> None:
        async with serving() as server:
            for certificate, said in (("n1", "n2"), ("n2", "n1")):
                async with raw_client(server.port, certificate) as client:
                    await client.request(node=said)
                    status, body = await client.answer()
                    words = f"certificate is for node {certificate}, the agent says {said}"
                    assert (status, json.loads(body)) == (403, {"error": words})
                async with raw_client(server.port, certificate) as client:
                    await client.request(node=certificate)
                    await client.say(Register(node_id=said))
                    bye = await client.bye()
                    assert (bye.code, bye.reason) == ("forbidden", words)
            assert server.leader.heard == []
            assert server.links.connected() == frozenset()

    trio.run(main)


@pytest.mark.covers("E-145")
def test_register_is_answered_by_registered_then_control_planes_then_commands() -> None:
    async def main() -> None:
        leader = FakeLeader(unclaimed=["old-0"])
        async with serving(leader) as server, raw_client(server.port) as client:
            leader.during_register = lambda: (server.links.send("n1", StartShard(shard_id="new-0")), None)[1]
            await client.request()
            await client.say(Register(node_id="n1", running_shards=[RunningShard(shard_id="old-0")]))
            commands = [await client.command() for _ in range(4)]
            assert [type(command) for command in commands] == [
                Registered,
                ControlPlanes,
                StartShard,
                StopShard,
            ]
            assert commands[0] == Registered(node_id="n1", control_plane="cp-1", leader=True, term=1)
            assert commands[1] == ControlPlanes(servers=[f"127.0.0.1:{server.port}"])
            await client.say(Heartbeat(node_id="n1", seq=1))
            await client.say(ShardStatus(shard_id="new-0"))
            await until(lambda: leader.kinds() == ["register", "heartbeat", "shard"])
            assert leader.heard[0][1][2] == "127.0.0.1"
        for first in (Heartbeat(node_id="n1"), LogsReply()):
            async with serving() as server, raw_client(server.port) as client:
                await client.request()
                await client.say(first)
                assert (await client.bye()).code == "bad_message"
                assert server.leader.heard == []
        impatient = replace(QUICK, register_s=0.2)
        async with serving(figures=impatient) as server, raw_client(server.port) as client:
            await client.request()
            bye = await client.bye()
            assert (bye.code, bye.reason) == ("bad_message", "no register came within 0.2 s")

    trio.run(main)
    # The figure in force outside of tests.
    assert LinkFigures().register_s == 10.0


@pytest.mark.covers("P-3")
def test_messages_straddle_and_share_data_frames() -> None:
    async def main() -> None:
        async with serving() as server:
            async with raw_client(server.port) as client:
                await client.request()
                beats = b"".join(frame(encode(Heartbeat(node_id="n1", seq=seq))) for seq in range(1, 40))
                await client.send(frame(encode(Register(node_id="n1"))) + beats)
                await until(lambda: server.leader.heard[-1:] == [("heartbeat", ("n1", 39))])
            async with raw_client(server.port, "n2") as client:
                await client.request(node="n2")
                await client.send(frame(encode(Register(node_id="n2", os="a" * 300))), piece=1)
                await client.send(frame(encode(Heartbeat(node_id="n2", seq=7))), piece=1)
                await until(lambda: server.leader.heard[-1:] == [("heartbeat", ("n2", 7))])
                await client.send(b"\x01")
                await client.until(lambda: client.reset_code is not None)
                assert client.reset_code == 1

    trio.run(main)


@pytest.mark.covers("P-4")
def test_a_length_of_two_gibibytes_is_answered_with_enhance_your_calm_and_no_memory() -> None:
    async def main() -> None:
        with capture_logs() as logs:
            async with serving() as server, raw_client(server.port) as client:
                await client.request()
                await client.say(Register(node_id="n1"))
                await client.command()
                before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                await client.send(b"\x00\x80\x00\x00\x00" + bytes(32_000))
                await client.until(lambda: client.reset_code is not None)
                assert client.reset_code == ENHANCE_YOUR_CALM
                assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 8192
                await until(lambda: server.links.connected() == frozenset())
        assert any(line["log_level"] == "warning" and line.get("node") == "n1" for line in logs)

    trio.run(main)


@pytest.mark.covers("P-43")
def test_what_is_over_a_limit_ends_the_link_with_the_fields_name() -> None:
    over: list[tuple[dict[str, Any], str]] = [
        ({"t": "register", "node_id": "N1"}, "node_id"),
        ({"t": "register", "node_id": "n1", "os": "x" * 65_537}, "os"),
        ({"t": "register", "node_id": "n1", "features": ["x"] * 10_001}, "features"),
        ({"t": "register", "node_id": "n1", "running_shards": [{"replica_id": "x" * 129}]}, "replica_id"),
    ]

    async def main() -> None:
        async with serving() as server:
            for message, field in over:
                async with raw_client(server.port) as client:
                    await client.request()
                    await client.until(lambda: client.status == 200)
                    data = frame(msgspec.msgpack.encode(message))
                    await client.send(data[:60_000])
                    await _send_rest(client, data[60_000:])
                    bye = await client.bye()
                    assert bye.code == "bad_message"
                    assert field in bye.reason
            assert server.leader.heard == []

    trio.run(main)


async def _send_rest(client: Any, data: bytes) -> None:
    """Send what is beyond the first window, as the server opens it."""
    while data:
        room = min(client.h2.local_flow_control_window(1), len(data), 16_000)
        if room:
            await client.send(data[:room])
            data = data[room:]
        else:
            await client._read()


@pytest.mark.covers("P-40")
def test_an_unknown_message_is_skipped_and_logged_once_per_link() -> None:
    async def main() -> None:
        with capture_logs() as logs:
            async with serving() as server, raw_client(server.port) as client:
                await client.request()
                await client.say(Register(node_id="n1"))
                for _ in range(5):
                    await client.send(frame(msgspec.msgpack.encode({"t": "kv_events", "stored": [1]})))
                await client.say(Heartbeat(node_id="n1", seq=1))
                await until(lambda: "heartbeat" in server.leader.kinds())
        assert [line["tag"] for line in logs if "tag" in line] == ["kv_events"]

    trio.run(main)


@pytest.mark.covers("P-23")
def test_a_second_link_of_a_node_replaces_the_first() -> None:
    async def main() -> None:
        async with serving() as server, raw_client(server.port) as first, raw_client(server.port) as second:
            await first.request()
            await first.say(Register(node_id="n1"))
            assert isinstance(await first.command(), Registered)
            await second.request()
            await second.say(Register(node_id="n1"))
            assert isinstance(await second.command(), Registered)
            await first.say(Heartbeat(node_id="n1", seq=99))
            assert (await first.bye()).code == "replaced"
            await second.say(Heartbeat(node_id="n1", seq=1))
            await until(lambda: server.leader.kinds() == ["register", "register", "heartbeat"])
            assert server.leader.heard[-1] == ("heartbeat", ("n1", 1))
            assert server.links.connected() == {"n1"}

    trio.run(main)


@pytest.mark.covers("P-25")
def test_a_leader_that_stops_leading_says_so_to_every_agent() -> None:
    async def main() -> None:
        async with serving() as server, raw_client(server.port) as one, raw_client(server.port, "n2") as two:
            for client, node in ((one, "n1"), (two, "n2")):
                await client.request(node=node)
                await client.say(Register(node_id=node))
                assert isinstance(await client.command(), Registered)
            server.leader.is_leading = False
            with trio.fail_after(20):
                assert [(await one.bye()).code, (await two.bye()).code] == ["not_leader", "not_leader"]
            await until(lambda: server.leader.kinds()[-2:] == ["lost", "lost"])

    trio.run(main)


@pytest.mark.covers("P-18")
def test_a_control_plane_that_stops_says_goodbye_as_the_last_thing_on_the_stream() -> None:
    async def main() -> None:
        async with serving() as server, raw_client(server.port) as client:
            await client.request()
            await client.say(Register(node_id="n1"))
            assert isinstance(await client.command(), Registered)
            server.stop()
            assert (await client.bye()).code == "shutdown"

    trio.run(main)


def test_a_heartbeat_whose_number_does_not_rise_is_not_used() -> None:
    async def main() -> None:
        async with serving() as server, raw_client(server.port) as client:
            await client.request()
            await client.say(Register(node_id="n1"))
            for seq in (1, 3, 3, 2, 4):
                await client.say(Heartbeat(node_id="n1", seq=seq))
            await until(lambda: server.leader.heard[-1] == ("heartbeat", ("n1", 4)))
            assert [what[1] for kind, what in server.leader.heard if kind == "heartbeat"] == [1, 3, 4]

    trio.run(main)


def test_a_second_register_on_a_link_ends_it() -> None:
    async def main() -> None:
        async with serving() as server, raw_client(server.port) as client:
            await client.request()
            await client.say(Register(node_id="n1"))
            await client.say(Register(node_id="n1"))
            assert (await client.bye()).code == "bad_message"

    trio.run(main)


def test_logs_find_the_reply_of_their_own_request() -> None:
    async def main() -> None:
        async with serving() as server, raw_client(server.port) as client:
            await client.request()
            await client.say(Register(node_id="n1"))
            await client.command()
            await client.command()
            replies: dict[str, LogsReply] = {}

            async def ask(shard_id: str) -> None:
                replies[shard_id] = await server.links.logs("n1", shard_id, 9_999)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, "a")
                nursery.start_soon(ask, "b")
                asked = [await client.command(), await client.command()]
                await client.say(LogsReply(request_id="of nobody"))
                for request in reversed(asked):
                    assert isinstance(request, LogsRequest)
                    assert request.lines == 5000
                    await client.say(LogsReply(request_id=request.request_id, lines=[request.shard_id]))
            assert {shard: reply.lines for shard, reply in replies.items()} == {"a": ["a"], "b": ["b"]}
            with pytest.raises(Refused, match=r"did not answer within 0\.01 s"):
                await server.links.logs("n1", "", 1, wait_s=0.01)
            with pytest.raises(Refused, match="not connected"):
                await server.links.logs("n9", "", 1)

            async def ask_and_lose() -> None:
                with pytest.raises(Refused, match="lost its link"):
                    await server.links.logs("n1", "", 1, wait_s=60)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask_and_lose)
                await client.command()
                await client.command()
                server.links._links["n1"].end("replaced", "for the test")

    trio.run(main)


def test_a_command_to_a_node_without_a_link_is_not_sent() -> None:
    async def main() -> None:
        async with serving() as server:
            assert not server.links.send("n1", StopShard(shard_id="x"))

    trio.run(main)


def test_commands_carry_the_term_and_the_trace() -> None:
    async def main() -> None:
        leader = FakeLeader(term=41)
        async with serving(leader) as server, raw_client(server.port) as client:
            await client.request()
            await client.say(Register(node_id="n1"))
            await client.command()
            await client.command()
            leader.term = 42
            server.links.send("n1", StopShard(shard_id="x"), {"traceparent": "00-1-2-01"})
            sent = await client.control()
            assert sent == Control(msg=StopShard(shard_id="x"), trace={"traceparent": "00-1-2-01"}, term=42)

    trio.run(main)


def test_a_node_that_reads_nothing_is_told_from_its_full_queue() -> None:
    async def main() -> None:
        async with serving() as server, raw_client(server.port) as client:
            client.reads_data = False
            await client.request()
            await client.say(Register(node_id="n1"))
            await until(lambda: server.links.connected() == {"n1"})
            sent = 0
            with trio.fail_after(20):
                while server.links.send("n1", StopShard(shard_id="x" * 100, reason="y" * 1000)):
                    sent += 1
                    await trio.lowlevel.checkpoint()
            assert 1024 <= sent < 1024 + 200

    trio.run(main)


def test_a_fault_of_the_leaders_ends_that_link_and_no_other() -> None:
    class Faulty(FakeLeader):
        def on_shard(self, node_id: str, status: ShardStatus) -> None:
            raise ZeroDivisionError

    async def main() -> None:
        with capture_logs() as logs:
            async with (
                serving(Faulty()) as server,
                raw_client(server.port) as one,
                raw_client(server.port, "n2") as two,
            ):
                for client, node in ((one, "n1"), (two, "n2")):
                    await client.request(node=node)
                    await client.say(Register(node_id=node))
                    assert isinstance(await client.command(), Registered)
                await one.say(ShardStatus(shard_id="x"))
                await one.until(lambda: one.is_ended)
                await until(lambda: server.links.connected() == {"n2"})
                await two.say(Heartbeat(node_id="n2", seq=1))
                await until(lambda: server.leader.kinds()[-1] == "heartbeat")
        assert any(line["log_level"] == "error" for line in logs)

    trio.run(main)


def test_a_revoked_node_is_cut_while_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmgw.control.links.REVOCATION_CHECK_S", 0.05)
    seen: list[tuple[str, str, float]] = []
    gone: list[str] = []

    def revoked(common_name: str, serial: str, issued_unix: float) -> str | None:
        seen.append((common_name, serial, issued_unix))
        return gone[0] if gone else None

    async def main() -> None:
        async with serving(revoked=revoked) as server, raw_client(server.port) as client:
            await client.request()
            await client.say(Register(node_id="n1"))
            assert isinstance(await client.command(), Registered)
            gone.append("the node was removed")
            bye = await client.bye()
            assert (bye.code, bye.reason) == ("revoked", "the node was removed")

    trio.run(main)
    name, serial, issued_unix = seen[0]
    assert (name, serial == serial.lower(), issued_unix > 1.6e9) == ("n1", True, True)


def test_without_tls_the_header_is_believed_and_must_be_an_id() -> None:
    async def main() -> None:
        async with serving(is_insecure=True) as server:
            async with raw_client(server.port, None) as client:
                await client.request(node="n7")
                await client.say(Register(node_id="n7"))
                assert isinstance(await client.command(), Registered)
            async with raw_client(server.port, None) as client:
                await client.request(node="N 7")
                assert (await client.answer())[0] == 403

    trio.run(main)


RECORDED = frame(
    encode(
        Register(
            node_id="n1",
            labels={"a": "b"},
            gpus=[GPU(index=0, uuid="GPU-1", memory_total_mb=81_920)],
            running_shards=[RunningShard(shard_id="s-0", gpu_indices=[0])],
        )
    )
)


@pytest.mark.covers("X-10")
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, len(RECORDED) - 1), st.binary(max_size=9)), max_size=5), max_size=6
    )
)
def test_mutated_registers_never_crash_the_port(mutations: list[list[tuple[int, bytes]]]) -> None:
    async def main() -> None:
        with capture_logs() as logs:
            async with serving() as server:
                for mutation in mutations:
                    await _send_mutated(server, mutation)
                async with raw_client(server.port, "n2") as client:
                    await client.request(node="n2")
                    await client.say(
                        Register(node_id="n2", cpu_count=-(2**60), gpus=[], labels={"x": "y" * 60_000})
                    )
                    assert isinstance(await client.command(), Registered)
        assert [
            line for line in logs if line["log_level"] == "error" or "fault" in str(line.get("error"))
        ] == []

    trio.run(main)


async def _send_mutated(server: Server, mutation: list[tuple[int, bytes]]) -> None:
    data = bytearray(RECORDED)
    for at, replacement in mutation:
        data[at : at + len(replacement)] = replacement
    async with raw_client(server.port) as client:
        await client.request()
        await client.send(bytes(data))
        client.h2.end_stream(1)
        await client.flush()
        await client.until(lambda: client.is_ended or client.reset_code is not None)


def test_a_bye_is_not_sent_twice() -> None:
    async def main() -> None:
        async with serving() as server, raw_client(server.port) as client:
            await client.request()
            await client.say(Register(node_id="n1"))
            await client.command()
            link = server.links._links["n1"]
            link.end("replaced", "first")
            link.end("shutdown", "second")
            assert await client.bye() == Bye(code="replaced", reason="first")

    trio.run(main)
