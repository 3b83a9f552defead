"""The authority `llmgw up` makes for itself, so that its one agent speaks mutual TLS as in a cluster.

Made at the first start. A certificate with fewer than 30 days left is made anew, from the same authority, at the next
start, so that a laptop woken after a year still starts.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509

from llmgw.ops import pki
from llmgw.ops.up.files import NODE_ID
from llmgw.ops.up.layout import Layout
from llmgw.ops.up.ports import HOST

_RENEW_BEFORE = timedelta(days=30)


def ensure_certificates(layout: Layout) -> None:
    """Make what is missing or about to end. Raises Refused."""
    authority = layout.secrets / "authority"
    if not (authority / pki.CA_FILE).exists():
        pki.init_ca(authority)
    if _is_due(layout.secrets / "server.pem"):
        pki.issue_server(authority, "server", [HOST, "localhost"], layout.secrets)
    if _is_due(layout.secrets / f"agent-{NODE_ID}.pem"):
        pki.issue_agent(authority, NODE_ID, layout.secrets)


def _is_due(path: Path) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        return True
    return certificate.not_valid_after_utc - datetime.now(UTC) < _RENEW_BEFORE
