import socket

import pytest
import trio

from llmgw.config.refusal import Refused
from llmgw.net.listeners import open_listeners, parse_address


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (":8080", (None, 8080)),
        ("127.0.0.1:9090", ("127.0.0.1", 9090)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:1", ("localhost", 1)),
        (" :80 ", (None, 80)),
    ],
)
def test_addresses_are_read(address: str, expected: tuple[str | None, int]) -> None:
    assert parse_address(address) == expected


@pytest.mark.parametrize(
    "address", ["", "8080", "127.0.0.1", ":99999", ":x", "::1:80", "[::1]", "a:b:1", ":-1"]
)
def test_what_is_no_address_is_refused_in_words(address: str) -> None:
    with pytest.raises(Refused, match="is no address to listen on") as refused:
        parse_address(address)
    assert refused.value.status == 400


def test_a_port_in_use_is_refused_in_words() -> None:
    async def main() -> None:
        (listener,) = await open_listeners("127.0.0.1:0")
        port = listener.socket.getsockname()[1]
        with pytest.raises(Refused, match=f"Another program listens on 127.0.0.1:{port}") as refused:
            await open_listeners(f"127.0.0.1:{port}")
        assert refused.value.status == 409
        await listener.aclose()
        for again in await open_listeners(f"127.0.0.1:{port}"):
            await again.aclose()

    trio.run(main)


@pytest.mark.parametrize("address", ["192.0.2.1:0", "no-such-host.invalid:80"])
def test_an_address_of_another_machine_is_refused(address: str) -> None:
    async def main() -> None:
        with pytest.raises(Refused, match="Cannot listen on"):
            await open_listeners(address)

    trio.run(main)


def test_every_address_of_the_machine_answers() -> None:
    async def main() -> None:
        listeners = await open_listeners(":0")
        for listener in listeners:
            port = listener.socket.getsockname()[1]
            host = "::1" if listener.socket.family == socket.AF_INET6 else "127.0.0.1"
            await (await trio.open_tcp_stream(host, port)).aclose()
            await listener.aclose()

    trio.run(main)
