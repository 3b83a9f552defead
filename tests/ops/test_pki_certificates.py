"""X.509 values of the authority, in memory."""

from __future__ import annotations

from datetime import timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from llmgw.ops.pki_certificates import Authority, authority_pair, leaf_pair, now


def _authority() -> Authority:
    pair = authority_pair()
    key = load_pem_private_key(pair.key_pem, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return Authority(x509.load_pem_x509_certificate(pair.cert_pem), key)


def test_the_authority_may_sign_leaves_and_no_further_authority() -> None:
    constraints = _authority().certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)


def test_a_leaf_has_one_use() -> None:
    authority = _authority()
    for is_server, usage in (
        (True, ExtendedKeyUsageOID.SERVER_AUTH),
        (False, ExtendedKeyUsageOID.CLIENT_AUTH),
    ):
        leaf = x509.load_pem_x509_certificate(leaf_pair(authority, "n", [], is_server=is_server).cert_pem)
        assert list(leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [usage]
        leaf.verify_directly_issued_by(authority.certificate)


def test_a_leaf_does_not_outlive_its_authority() -> None:
    authority = _authority()
    name = authority.certificate.subject
    old = x509.CertificateBuilder(
        name, name, authority.key.public_key(), 1, now() - timedelta(days=9), now() + timedelta(days=9)
    ).sign(authority.key, hashes.SHA256())
    leaf = x509.load_pem_x509_certificate(
        leaf_pair(Authority(old, authority.key), "n", [], is_server=False).cert_pem
    )
    assert leaf.not_valid_after_utc == old.not_valid_after_utc
