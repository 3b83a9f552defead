"""Which address engines listen on: the table of P-54, and this machine's own addresses."""

from __future__ import annotations

import socket

import pytest

from llmgw.agent.bind_address import bind_address, interface_of, own_addresses, route_address
from llmgw.agent.shard_spec import ShardSpec
from llmgw.wire.agent import EngineProfile

OWN = frozenset({"127.0.0.1", "10.0.0.7", "::1", "fd00::2"})


@pytest.mark.parametrize(
    ("mgmt", "bound", "asked"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("10.0.0.7", "10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7", "10.0.0.7"),
        ("fd00::2", "fd00::2", "[fd00::2]"),
        ("FD00:0::2", "fd00::2", "[fd00::2]"),
        ("192.0.2.9", "", "127.0.0.1"),
        ("node-7.example", "", "127.0.0.1"),
        ("0.0.0.0", "", "127.0.0.1"),
        ("::", "", "127.0.0.1"),
        ("", "", "127.0.0.1"),
    ],
)
@pytest.mark.covers("P-54", "E-6", "E-7")
def test_an_own_address_is_bound_and_any_other_means_every_address(mgmt: str, bound: str, asked: str) -> None:
    assert bind_address(mgmt, OWN) == bound
    spec = ShardSpec(replica_id="r", shard_id="s", model="m", profile=EngineProfile(), bind_addr=bound)
    assert spec.health_host == asked and spec.listen_host == (bound or "0.0.0.0")


@pytest.mark.covers("P-54")
def test_this_machines_addresses_are_those_the_kernel_lists() -> None:
    own = own_addresses()
    assert "127.0.0.1" in own
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for address in own:
            if "." in address:
                probe.bind((address, 0))
                break


def test_the_route_to_a_server_on_this_machine_is_loopback() -> None:
    assert route_address("https://127.0.0.1:7443") == "127.0.0.1" and route_address("") == "127.0.0.1"
    assert interface_of("127.0.0.1") == "lo" and interface_of("not an address") == ""
