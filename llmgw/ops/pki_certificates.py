"""X.509 values of the cluster's authority, in memory: ECDSA P-256, the authority 10 years, all else 397 days (X-26).

A certificate begins when it is made and not a little earlier: revoking a node names certificates issued before that
moment (X-28), and one that was dated back would be born revoked.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_LIFE = timedelta(days=3650)
LEAF_LIFE = timedelta(days=397)
CA_NAME = "llmgw cluster authority"


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority that can sign."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, PEM; the key in PKCS 8 without a password."""

    cert_pem: bytes
    key_pem: bytes


def now() -> datetime:
    """Return the present in whole seconds, which is what a certificate can hold."""
    return datetime.now(UTC).replace(microsecond=0)


def authority_pair() -> KeyPair:
    """Make a self-signed authority that may sign leaves only (path length 0)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(CA_NAME)
    begin = now()
    builder = _builder(name, name, key.public_key(), begin, begin + CA_LIFE)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return _pair(builder.sign(key, hashes.SHA256()), key)


def leaf_pair(
    authority: Authority, common_name: str, names: list[x509.GeneralName], *, is_server: bool
) -> KeyPair:
    """Make a key and sign its certificate, for one use only: serving, or being a client. Never outlives the authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    begin = now()
    end = min(begin + LEAF_LIFE, authority.certificate.not_valid_after_utc)
    builder = _builder(_name(common_name), authority.certificate.subject, key.public_key(), begin, end)
    usage = ExtendedKeyUsageOID.SERVER_AUTH if is_server else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(issuer, critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _pair(builder.sign(authority.key, hashes.SHA256()), key)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=issuer,
        public_key=public,
        serial_number=x509.random_serial_number(),
        not_valid_before=begin,
        not_valid_after=end,
    )
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    return KeyPair(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )
