"""Mutual TLS as OpenSSL itself judges it: versions, certificates, names, files."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from llmgw.config.refusal import Refused
from llmgw.config.server import TLSFiles
from llmgw.net.tls_contexts import client_context, common_name, server_context
from tests.control.link_rig import papers


def _contexts(
    server: TLSFiles | None = None, client: TLSFiles | None = None
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    served, dialled = server or papers().server, client or papers().nodes["n1"]
    return (
        server_context(served.ca, served.cert, served.key),
        client_context(dialled.ca, dialled.cert, dialled.key),
    )


def _shake(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = "127.0.0.1"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Carry the handshake's bytes in memory; raise what either side raises."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    dialling = client.wrap_bio(down, up, server_hostname=host)
    serving = server.wrap_bio(up, down, server_side=True)
    for _ in range(6):
        for side in (dialling, serving):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
    return serving, dialling


def test_both_sides_know_each_other_over_tls_1_3_with_alpn_h2() -> None:
    serving, dialling = _shake(*_contexts())
    assert (serving.version(), serving.selected_alpn_protocol(), dialling.selected_alpn_protocol()) == (
        "TLSv1.3",
        "h2",
        "h2",
    )
    assert common_name(serving.getpeercert()) == "n1"


@pytest.mark.covers("P-5")
def test_tls_1_2_is_accepted_and_1_1_is_not() -> None:
    server, client = _contexts()
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    assert _shake(server, client)[0].version() == "TLSv1.2"
    assert server.minimum_version == client.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.covers("P-5")
def test_a_client_without_a_certificate_or_of_another_authority_is_refused() -> None:
    server, _ = _contexts()
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(papers().server.ca)
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        _shake(server, bare)
    theirs = papers("theirs").nodes["n1"]
    mixed = TLSFiles(ca=papers().server.ca, cert=theirs.cert, key=theirs.key)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        _shake(*_contexts(client=mixed))


def test_a_certificate_serves_its_own_purpose_only() -> None:
    node, server = papers().nodes["n1"], papers().server
    with pytest.raises(ssl.SSLError, match="unsuitable certificate purpose"):
        _shake(*_contexts(server=node))
    with pytest.raises(ssl.SSLError, match="unsuitable certificate purpose"):
        _shake(*_contexts(client=server))


@pytest.mark.covers("P-5")
def test_no_public_authority_is_trusted() -> None:
    for context in _contexts():
        assert [
            dict(part[0] for part in found["subject"])["commonName"] for found in context.get_ca_certs()
        ] == ["llmgw cluster authority"]


def test_a_name_that_was_not_dialled_is_refused_by_name() -> None:
    with pytest.raises(ssl.SSLError, match=r"not valid for 'cp\.example'"):
        _shake(*_contexts(), host="cp.example")


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    files = papers().server
    other = papers().nodes["n1"]
    nothing = tmp_path / "nothing.pem"
    with pytest.raises(Refused, match=r"nothing\.pem cannot be read"):
        server_context(files.ca, str(nothing), files.key)
    nothing.write_text("no PEM at all")
    with pytest.raises(Refused, match=r"tls\.ca .*nothing\.pem"):
        server_context(str(nothing), files.cert, files.key)
    with pytest.raises(Refused, match=r"not a pair"):
        server_context(files.ca, files.cert, other.key)


def test_a_certificate_with_no_single_common_name_names_nobody() -> None:
    assert common_name(None) == ""
    assert common_name({"subject": ((("commonName", "a"),), (("commonName", "b"),))}) == ""
    assert common_name({"subject": ((("organizationName", "a"),),)}) == ""
