"""The agent role: the node and its link, composed."""

import socket
import sys
from functools import partial

import anyio
import msgspec

from llmgw import __version__
from llmgw.agent.agent_log import AgentLog
from llmgw.agent.link import AgentLink, node_id_of
from llmgw.agent.node import Node
from llmgw.config.agent import AgentConfig
from llmgw.config.load import load_agent_config
from llmgw.obs import log
from llmgw.ops.lifetime import Stop, exit_status, wait_for_stop


def main(config: str, parent_fd: int | None = None, stop_engines: bool = False) -> int:
    """Run until SIGTERM or SIGINT. Returns 0, or 1 after a refusal said on standard error.

    Engines are left running, for the next agent to take over, unless `stop_engines`. `parent_fd` is the read end of a
    pipe whose closing means that whoever started this agent is gone; engines stay then, too.
    """
    try:
        settings = load_agent_config(config)
        anyio.run(partial(_serve, settings, parent_fd, stop_engines), backend="trio")
    except BaseException as error:
        return exit_status("agent", error)
    return 0


async def _serve(config: AgentConfig, parent_fd: int | None, stop_engines: bool) -> None:
    kept = AgentLog(sys.stderr)
    log.configure(config.log.format, config.log.level, stream=kept)  # type: ignore[arg-type]
    config = msgspec.structs.replace(config, node_id=node_id_of(config, socket.gethostname()))
    node = Node(config, kept)
    link = AgentLink(config, node, node_id=node.node_id, version=__version__)
    reason: Stop | None = None
    async with anyio.create_task_group() as tasks:
        await tasks.start(node.run)
        async with anyio.create_task_group() as linked:
            linked.start_soon(link.run)
            reason = await wait_for_stop(parent_fd)
            linked.cancel_scope.cancel()
        if stop_engines and reason is Stop.SIGNAL:
            await node.stop_all()
        tasks.cancel_scope.cancel()
