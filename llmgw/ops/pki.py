"""The cluster's own certificate authority: made once, then it signs servers and agents (34 X-26, X-27).

The two kinds of certificate are kept apart by their usage, so that a node's certificate cannot stand in for a control
plane: servers carry serverAuth and every name agents dial, agents carry clientAuth and their node's id as common name
(20 P-6). Everything asked for is checked before anything is written; a key is on disk with mode 0600 from its first
byte. The authority's key stays on the machine that nodes are added from.
"""

import ipaddress
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from llmgw.config.refusal import Refused
from llmgw.ops.pki_certificates import Authority, KeyPair, authority_pair, leaf_pair, now
from llmgw.wire.agent import is_node_id

CA_FILE = "ca.pem"
CA_KEY_FILE = "ca-key.pem"
_SERVER_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_LABEL = re.compile(r"^(?!-)[A-Za-z0-9-]{1,63}(?<!-)\Z")


@dataclass(frozen=True, slots=True)
class PemFiles:
    """Where a certificate, its key and the authority's certificate were written."""

    ca: Path
    cert: Path
    key: Path


def init_ca(directory: Path, *, force: bool = False) -> PemFiles:
    """Make an authority: `ca.pem` and `ca-key.pem` (0600) in `directory`, valid for 10 years.

    Raises Refused(409) over an existing one unless `force`, which makes every certificate of the old one worthless.
    """
    cert, key = directory / CA_FILE, directory / CA_KEY_FILE
    there = [path for path in (cert, key) if path.exists()]
    if there and not force:
        raise Refused(
            409, f"{there[0]} exists already; a new authority would lock out every node (--force does it)"
        )
    _write_pair(authority_pair(), cert, key)
    return PemFiles(cert, cert, key)


def issue_server(directory: Path, name: str, hosts: Sequence[str], out: Path) -> PemFiles:
    """Sign a control plane's certificate for every host in `hosts` (names and IP addresses that agents dial).

    Writes `server.pem`, `server-key.pem` (0600) and a copy of `ca.pem` to `out`; valid for 397 days. Raises Refused.
    """
    if not _SERVER_NAME.match(name):
        raise Refused(400, f"the name {name!r} must be 1 to 63 letters, digits, '.', '_', '-'")
    if not hosts:
        raise Refused(
            400, "a server's certificate needs at least one name or address that agents dial (--host)"
        )
    names = [parse_host(host) for host in hosts]
    return _issue(directory, out, "server", name, names, is_server=True)


def issue_agent(directory: Path, node_id: str, out: Path) -> PemFiles:
    """Sign a node's certificate; its common name is the node's id (20 P-6).

    Writes `agent-NODE.pem`, `agent-NODE-key.pem` (0600) and a copy of `ca.pem` to `out`; valid for 397 days. Raises
    Refused.
    """
    if not is_node_id(node_id):
        raise Refused(
            400,
            f"the node id {node_id!r} must be 1 to 63 of a-z, 0-9, '.', '_', '-', beginning with a letter or a digit",
        )
    return _issue(directory, out, f"agent-{node_id}", node_id, [], is_server=False)


def parse_host(host: str) -> x509.GeneralName:
    """Read a DNS name or an IP address as a certificate's alternative name. Raises Refused naming it."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    labels = host.removesuffix(".").split(".")
    # A last label of digits alone is an address that was mistyped, never a name (RFC 3696 section 2).
    if len(host) > 253 or not all(_LABEL.match(label) for label in labels) or labels[-1].isdigit():
        raise Refused(400, f"the host {host!r} is neither a DNS name nor an IP address")
    return x509.DNSName(host.removesuffix(".").lower())


def load_authority(directory: Path) -> Authority:
    """Read the authority of `directory`. Raises Refused: missing, unreadable, no pair, key readable by others."""
    cert_path, key_path = directory / CA_FILE, directory / CA_KEY_FILE
    _check_private(key_path)
    try:
        certificate = x509.load_pem_x509_certificate(cert_path.read_bytes())
        key = load_pem_private_key(key_path.read_bytes(), password=None)
    except OSError as error:
        raise Refused(400, f"cannot read {error.filename}: {error.strerror}") from None
    except (ValueError, TypeError) as error:
        raise Refused(
            400, f"the authority in {directory} is not a certificate and a key in PEM form: {error}"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise Refused(400, f"{key_path} is not the key of {cert_path}")
    if certificate.not_valid_after_utc <= now():
        ended = certificate.not_valid_after_utc.date()
        raise Refused(
            400, f"the authority {cert_path} expired on {ended}; make a new one with cert init-ca --force"
        )
    return Authority(certificate, key)


def _check_private(key_path: Path) -> None:
    try:
        mode = key_path.stat().st_mode & 0o777
    except OSError as error:
        hint = "make an authority with cert init-ca"
        raise Refused(400, f"cannot read the authority's key {key_path}: {error.strerror}; {hint}") from None
    if mode & 0o077:
        raise Refused(
            400, f"the authority's key {key_path} is readable by others (mode {mode:04o}); chmod 600 it"
        )


def _issue(
    directory: Path, out: Path, stem: str, common_name: str, names: list[x509.GeneralName], *, is_server: bool
) -> PemFiles:
    authority = load_authority(directory)
    pair = leaf_pair(authority, common_name, names, is_server=is_server)
    files = PemFiles(out / CA_FILE, out / f"{stem}.pem", out / f"{stem}-key.pem")
    ca_pem = (directory / CA_FILE).read_bytes()
    if files.ca.exists() and files.ca.read_bytes() != ca_pem:
        raise Refused(409, f"{files.ca} is the certificate of another authority; choose another --out")
    _write_pair(pair, files.cert, files.key)
    if not files.ca.exists():
        os.replace(_write_beside(files.ca, ca_pem, 0o644), files.ca)
    return files


def _write_pair(pair: KeyPair, cert: Path, key: Path) -> None:
    """Write key and certificate beside their places, then move both there, the key first."""
    try:
        cert.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        key_beside = _write_beside(key, pair.key_pem, 0o600)
        cert_beside = _write_beside(cert, pair.cert_pem, 0o644)
        os.replace(key_beside, key)
        os.replace(cert_beside, cert)
    except OSError as error:
        raise Refused(400, f"cannot write {error.filename or cert}: {error.strerror}") from None


def _write_beside(path: Path, data: bytes, mode: int) -> Path:
    """Write `data` to disk under a passing name, with its final mode from the first byte."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    return beside
