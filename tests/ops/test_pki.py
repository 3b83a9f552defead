"""The cluster's authority on disk, judged by openssl itself."""

from __future__ import annotations

import os
import stat
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from llmgw.config.refusal import Refused
from llmgw.ops import pki
from llmgw.ops.pki_certificates import authority_pair


def _verify(ca: Path, cert: Path, purpose: str) -> bool:
    command = ["openssl", "verify", "-x509_strict", "-CAfile", str(ca), "-purpose", purpose, str(cert)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return pki.init_ca(tmp_path / "pki").ca.parent


def test_each_kind_of_certificate_serves_its_own_purpose_and_no_other(
    authority: Path, tmp_path: Path
) -> None:
    server = pki.issue_server(authority, "cp-1", ["cp-1.example", "10.0.0.1", "fd00::1"], tmp_path / "out")
    agent = pki.issue_agent(authority, "node-1", tmp_path / "out")
    assert _verify(server.ca, server.cert, "sslserver")
    assert _verify(agent.ca, agent.cert, "sslclient")
    assert not _verify(agent.ca, agent.cert, "sslserver")
    assert not _verify(server.ca, server.cert, "sslclient")
    other = pki.init_ca(tmp_path / "other")
    assert not _verify(other.ca, server.cert, "sslserver")


def test_keys_are_p256_and_lives_are_ten_years_and_397_days(authority: Path, tmp_path: Path) -> None:
    agent = pki.issue_agent(authority, "node-1", tmp_path)
    for path, life in ((authority / pki.CA_FILE, timedelta(days=3650)), (agent.cert, timedelta(days=397))):
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        assert certificate.not_valid_after_utc - certificate.not_valid_before_utc == life
        assert abs(certificate.not_valid_before_utc - datetime.now(UTC)) < timedelta(minutes=2)
        public = certificate.public_key()
        assert isinstance(public, ec.EllipticCurvePublicKey)
        assert isinstance(public.curve, ec.SECP256R1)
    key = load_pem_private_key(agent.key.read_bytes(), password=None)
    assert key.public_key() == x509.load_pem_x509_certificate(agent.cert.read_bytes()).public_key()


def test_a_servers_certificate_carries_every_name_and_an_agents_its_node_id(
    authority: Path, tmp_path: Path
) -> None:
    server = pki.issue_server(authority, "cp-1", ["CP-1.example.", "10.0.0.1", "fd00::1"], tmp_path)
    certificate = x509.load_pem_x509_certificate(server.cert.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["cp-1.example"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "fd00::1"]
    agent = pki.issue_agent(authority, "node-1", tmp_path)
    subject = x509.load_pem_x509_certificate(agent.cert.read_bytes()).subject
    assert subject.rfc4514_string() == "CN=node-1"


def test_keys_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ca = pki.init_ca(tmp_path / "pki")
        agent = pki.issue_agent(tmp_path / "pki", "n1", tmp_path / "out")
    finally:
        os.umask(before)
    assert [_mode(path) for path in (ca.key, agent.key)] == [0o600, 0o600]
    assert [_mode(path) for path in (ca.cert, agent.cert, agent.ca)] == [0o644, 0o644, 0o644]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_an_authoritys_key_that_others_may_read_is_refused(
    authority: Path, tmp_path: Path, mode: int
) -> None:
    (authority / pki.CA_KEY_FILE).chmod(mode)
    with pytest.raises(Refused, match="readable by others"):
        pki.issue_agent(authority, "n1", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "host",
    ["", "a b", "300.1.1.1", "1.2.3", "-a", "a-", "a..b", "*.a", "a_b", "https://a", "a:7443", "x" * 64, "é"],
)
def test_a_host_that_does_not_parse_is_refused_and_nothing_is_written(
    authority: Path, tmp_path: Path, host: str
) -> None:
    with pytest.raises(Refused) as refused:
        pki.issue_server(authority, "cp-1", ["good.example", host], tmp_path / "out")
    assert repr(host) in refused.value.sentence
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["", "A", "a b", "../x", "a" * 64, "-a", "a/b"])
def test_a_node_id_that_does_not_parse_is_refused_and_nothing_is_written(
    authority: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(Refused):
        pki.issue_agent(authority, name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_server_without_a_host_or_with_a_strange_name_is_refused(authority: Path, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="--host"):
        pki.issue_server(authority, "cp-1", [], tmp_path / "out")
    with pytest.raises(Refused, match="'c p'"):
        pki.issue_server(authority, "c p", ["a"], tmp_path / "out")


def test_a_second_authority_over_the_first_needs_force(authority: Path) -> None:
    before = (authority / pki.CA_FILE).read_bytes()
    with pytest.raises(Refused) as refused:
        pki.init_ca(authority)
    assert refused.value.status == 409
    assert (authority / pki.CA_FILE).read_bytes() == before
    pki.init_ca(authority, force=True)
    assert (authority / pki.CA_FILE).read_bytes() != before


def test_certificates_of_two_authorities_do_not_share_a_folder(authority: Path, tmp_path: Path) -> None:
    pki.init_ca(tmp_path / "other")
    pki.issue_agent(authority, "n1", tmp_path / "out")
    with pytest.raises(Refused, match="another authority"):
        pki.issue_agent(tmp_path / "other", "n2", tmp_path / "out")
    assert not (tmp_path / "out" / "agent-n2.pem").exists()


def test_an_authority_that_is_missing_broken_or_no_pair_is_refused_in_words(
    authority: Path, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match="init-ca"):
        pki.load_authority(tmp_path / "nowhere")
    key = authority / pki.CA_KEY_FILE
    key.write_bytes(authority_pair().key_pem)
    with pytest.raises(Refused, match="is not the key of"):
        pki.load_authority(authority)
    key.write_bytes(b"not a key")
    with pytest.raises(Refused, match="PEM"):
        pki.load_authority(authority)
