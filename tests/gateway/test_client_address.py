"""Whose address a request has (S-12)."""

import pytest

from llmgw.gateway.client_address import client_address, networks

PROXIES = networks(["10.0.0.0/8", "192.0.2.1", "nonsense", "fd00::/8"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("203.0.113.9", ["1.2.3.4"], "203.0.113.9"),
        ("10.0.0.1", ["1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["6.6.6.6, 1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["6.6.6.6", "1.2.3.4, 10.0.0.2"], "1.2.3.4"),
        ("192.0.2.1", ["10.0.0.3"], "10.0.0.3"),
        ("10.0.0.1", ["rubbish"], "10.0.0.1"),
        ("10.0.0.1", ["1.2.3.4, rubbish"], "10.0.0.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("fd00::1", ["2001:db8::5"], "2001:db8::5"),
        ("", ["1.2.3.4"], ""),
    ],
)
def test_only_trusted_proxies_are_believed_and_only_for_what_they_saw(peer, forwarded, expected):
    assert client_address(peer, forwarded, PROXIES) == expected


def test_without_trusted_proxies_nobody_is_believed():
    assert client_address("10.0.0.1", ["1.2.3.4"], ()) == "10.0.0.1"
