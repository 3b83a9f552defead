"""How a command says that it failed: one sentence on standard error, exit status 1 (C-85)."""

from typing import Any

import click


class Failure(click.ClickException):
    """A refusal or failure; `message` is the sentence."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        """Print the sentence alone."""
        click.echo(self.format_message(), err=True)
