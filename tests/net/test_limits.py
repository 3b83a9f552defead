import pytest

from llmgw.admin import server as admin_server
from llmgw.config.server import RouterSettings
from llmgw.net.limits import ListenerLimits, is_exempt, plain_address


@pytest.mark.covers("X-31")
@pytest.mark.parametrize(
    ("address", "exempt"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("10.1.2.3", True),
        ("192.0.2.7", True),
        ("192.0.2.8", False),
        ("2001:db8::5", True),
        ("2001:db9::5", False),
        ("8.8.8.8", False),
        ("nonsense", False),
    ],
)
def test_loopback_and_the_trusted_are_exempt(address: str, exempt: bool) -> None:
    trusted = ListenerLimits(trusted=("10.0.0.0/8", "192.0.2.7", "2001:db8::1/32")).trusted_networks()
    assert is_exempt(address, trusted) is exempt


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="proxy"):
        ListenerLimits(trusted=("proxy.example",)).trusted_networks()


@pytest.mark.parametrize(
    ("seen", "plain"),
    [("::ffff:10.0.0.1", "10.0.0.1"), ("10.0.0.1", "10.0.0.1"), ("fe80::1%eth0", "fe80::1"), ("::1", "::1")],
)
def test_one_client_has_one_address_whatever_socket_saw_it(seen: str, plain: str) -> None:
    assert plain_address(seen) == plain


@pytest.mark.covers("X-31")
def test_the_figures_are_those_of_the_specification() -> None:
    limits = ListenerLimits()
    assert (limits.max_connections, limits.per_address) == (16_384, 256)
    assert RouterSettings().max_connections == 16_384
    assert admin_server._MAX_CONNECTIONS == 64
    assert (limits.header_s, limits.header_bytes, limits.header_fields, limits.idle_s) == (
        10,
        65_536,
        100,
        120,
    )
    assert (limits.body_progress_s, limits.body_total_s, limits.write_stall_s) == (30, 300, 60)
