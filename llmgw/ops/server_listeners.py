"""The server's four listeners, opened before anything else so that a port in use is said before anything is touched."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio

from llmgw.admin.guards import check_listen_address
from llmgw.config.refusal import Refused
from llmgw.config.server import ServerConfig
from llmgw.net.listeners import open_listeners, parse_address


@dataclass(frozen=True)
class Listeners:
    """Open sockets by what is served on them."""

    client: list[Any]
    agent: list[Any]
    admin: list[Any]
    metrics: list[Any]


def agent_address(config: ServerConfig) -> str:
    """Return where agents are listened to; without TLS on loopback only, unless an address is named (P-9). Raises Refused."""
    if config.agent_tls is not None:
        return config.agent_listen
    if not config.agent_insecure:
        raise Refused(
            400,
            "agent_tls is not set: agents could not be told apart; make certificates with `llmgw ctl cert`, "
            "or set agent_insecure: true for a trial on this machine",
        )
    host, port = parse_address(config.agent_listen)
    return config.agent_listen if host else f"127.0.0.1:{port}"


@asynccontextmanager
async def server_listeners(config: ServerConfig) -> AsyncIterator[Listeners]:
    """Open all four; close what is still open at the end. Raises Refused naming the address that cannot be had."""
    check_listen_address(config.admin_listen, remote_allowed=config.admin_remote)
    addresses = (config.listen, agent_address(config), config.admin_listen, config.metrics_listen)
    opened: list[list[Any]] = []
    try:
        for address in addresses:
            opened.append(await open_listeners(address))
        yield Listeners(*opened)
    finally:
        with anyio.CancelScope(shield=True):
            for group in opened:
                for listener in group:
                    await listener.aclose()
