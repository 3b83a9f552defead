"""The command line's root: which roles and groups there are. Each is imported when it is run and not before."""

from collections.abc import Sequence

import click

from llmgw import __version__
from llmgw.cli.lazy import SETTINGS, LazyGroup

_COMMANDS = {
    "agent": ("llmgw.cli.roles", "agent", "Run a node's agent."),
    "ctl": ("llmgw.cli.ctl", "ctl", "Look at and change a running cluster."),
    "keys": ("llmgw.cli.keys", "keys", "Create, list and revoke API keys."),
    "server": ("llmgw.cli.roles", "server", "Run the control plane and the gateway."),
    "sim-engine": ("llmgw.cli.roles", "sim_engine", "Run a simulated engine, for tests."),
    "up": ("llmgw.cli.roles", "up", "Serve a model on this machine, with nothing to prepare."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS, invoke_without_command=True, context_settings=SETTINGS)
@click.version_option(__version__, message="llmgw %(version)s")
@click.pass_context
def cli(context: click.Context) -> None:
    """Serve language models from your own machines behind one OpenAI-compatible address."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        click.echo("\nThe console, which this command will open, comes in a later release.")


def main(argv: Sequence[str]) -> int:
    """Run one command; return its exit status: 0 done, 1 refused or failed, 2 the command line is wrong."""
    try:
        result = cli.main(list(argv), prog_name="llmgw", standalone_mode=False)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.Abort:
        return 130
    except click.ClickException as failure:
        failure.show()
        return failure.exit_code
    except BrokenPipeError:
        return 1
    return result if isinstance(result, int) else 0
