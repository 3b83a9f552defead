"""What each role may import beyond the standard library and llmgw itself.

Start-up is paid at every call, memory for as long as a process lives, so a role imports only what it needs. A library
that appears in a role's process and not in its set fails the run: either it came in by accident, or it belongs here.
"""

from __future__ import annotations

ASYNC = {"anyio", "attr", "attrs", "idna", "outcome", "sniffio", "sortedcontainers", "trio"}
"""trio and anyio with what they stand on."""

SHAPES = {"msgspec", "typing_extensions"}

LOG = {"structlog", "rich", "pygments", "markdown_it", "mdurl"}
"""structlog imports rich where it finds it, for the tracebacks of its console."""

LINK = {"h2", "hpack", "hyperframe"}

STORE = {"sqlalchemy", "greenlet", "aiosqlite", "alembic", "mako", "markupsafe", "psycopg", "psycopg_binary"}

FETCH = {"httpx", "httpcore", "h11", "certifi", "click"}
"""httpx, which also imports click where it finds it."""

ADMIN = {"hypercorn", "h11", "wsproto", "priority", "starlette"}

COMMANDS: dict[tuple[str, ...], set[str]] = {
    ("--version",): {"click"},
    ("ctl", "--help"): {"click"},
    ("keys", "create", "--help"): {"click"} | SHAPES,
    ("up", "--help"): {"click"},
    ("server", "--help"): {"click"},
    ("agent", "--help"): {"click"},
}
"""A command line that ends by itself, and what its process may have imported by then."""

ROLES: dict[tuple[str, ...], set[str]] = {
    ("llmgw.ops.server",): ASYNC
    | SHAPES
    | LOG
    | LINK
    | STORE
    | ADMIN
    | {"httptools", "prometheus_client", "ruamel", "cryptography"},
    ("llmgw.ops.agent",): ASYNC | SHAPES | LOG | LINK | FETCH | {"cryptography", "ruamel", "greenlet"},
    ("llmgw.gateway.pipeline", "llmgw.net.control_pipe", "llmgw.net.http1_server", "llmgw.obs.log"): (
        ASYNC | SHAPES | LOG | {"httptools", "prometheus_client", "greenlet"}
    ),
    ("llmgw.testing.sim_engine",): ASYNC | SHAPES | {"httptools"},
    ("llmgw.admin.client",): SHAPES,
}
"""Modules a role is composed of, imported as it starts. The third is a gateway worker: no store, no admin listener."""
