"""TLS of the agents' port: both sides show a certificate of llmgw's own authority, and no other is trusted (20 P-5).

The contexts start from nothing rather than from the system's store: a public authority must not be able to name a
node. TLS 1.3, or 1.2 where a peer has no better; ALPN is `h2` and is checked after the handshake, since OpenSSL goes
on without one when the two sides share none.
"""

import ssl
from pathlib import Path

from llmgw.config.refusal import Refused

ALPN = "h2"


def server_context(ca: str, cert: str, key: str) -> ssl.SSLContext:
    """Return the control plane's side: demands a client certificate of `ca`. Raises Refused naming the file."""
    return _context(ssl.PROTOCOL_TLS_SERVER, ca, cert, key)


def client_context(ca: str, cert: str, key: str) -> ssl.SSLContext:
    """Return the agent's side: checks the server's certificate against `ca` and the host dialled (P-7)."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, ca, cert, key)


def common_name(certificate: "dict[str, object] | None") -> str:
    """Return the subject's common name of `SSLObject.getpeercert()`'s form; "" when there is none, or several."""
    names = [
        value
        for part in (certificate or {}).get("subject", ())  # type: ignore[union-attr,attr-defined]
        for key, value in part
        if key == "commonName"
    ]
    return str(names[0]) if len(names) == 1 else ""


def _context(protocol: int, ca: str, cert: str, key: str) -> ssl.SSLContext:
    for path in (ca, cert, key):
        _check_readable(path)
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols([ALPN])
    try:
        context.load_verify_locations(cafile=ca)
    except ssl.SSLError as error:
        raise Refused(
            400, f"tls.ca {ca} is not a certificate in PEM form ({error.reason or error})"
        ) from None
    try:
        context.load_cert_chain(cert, key)
    except ssl.SSLError as error:
        reason = error.reason or str(error)
        raise Refused(
            400, f"tls.cert {cert} and tls.key {key} are not a pair in PEM form ({reason})"
        ) from None
    return context


def _check_readable(path: str) -> None:
    try:
        Path(path).read_bytes()
    except OSError as error:
        raise Refused(
            400, f"the TLS file {path or '(none given)'} cannot be read: {error.strerror}"
        ) from None
