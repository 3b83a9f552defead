"""The usual ports, free ones where those are busy, and a sentence where the client's is."""

import socket

import pytest

from llmgw.config.refusal import Refused
from llmgw.ops.up.ports import HOST, any_free_port, choose_ports, engine_ports, is_free


@pytest.fixture
def busy() -> "socket.socket":
    held = socket.create_server((HOST, 0))
    yield held  # type: ignore[misc]
    held.close()


def test_a_busy_client_port_is_refused_and_not_moved(busy: socket.socket) -> None:
    port = busy.getsockname()[1]
    assert not is_free(port)
    with pytest.raises(Refused, match=f"port {port} is in use"):
        choose_ports(port)


def test_the_four_ports_differ_even_when_the_client_takes_a_usual_one() -> None:
    ports = choose_ports(any_free_port(set()))
    assert len({ports.client, ports.agent, ports.admin, ports.metrics}) == 4
    if is_free(9090):
        moved = choose_ports(9090)
        assert moved.client == 9090
        assert moved.admin != 9090


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_what_is_not_a_port_is_refused(port: int) -> None:
    with pytest.raises(Refused, match="is not a port"):
        choose_ports(port)


def test_engines_get_a_block_in_which_nothing_listens() -> None:
    first, _, last = engine_ports(None).partition("-")
    block = range(int(first), int(last) + 1)
    assert len(block) == 20
    with socket.create_server((HOST, block[3])):
        moved = engine_ports(None)
    assert moved != f"{first}-{last}"


def test_the_block_of_the_last_start_is_kept() -> None:
    assert engine_ports("20040-20059") == "20040-20059"
