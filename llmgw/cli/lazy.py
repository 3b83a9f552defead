"""Command groups that import a command only when it is run: what keeps `llmgw --version` and `ctl` quick to start."""

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""`-h` on everything (C-85)."""


class LazyGroup(click.Group):
    """A group whose commands are `name -> (module, attribute, one line of help)`.

    The line is repeated here so that the group's help imports nothing; a test holds both equal.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str, str]] | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", SETTINGS)
        super().__init__(*args, **kwargs)
        self.lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every name, sorted."""
        return sorted({*self.lazy, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        module, attribute, _ = self.lazy[cmd_name]
        return getattr(import_module(module), attribute)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which name is nearest."""
        name = args[0]
        if name not in self.list_commands(ctx) and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.list_commands(ctx), 1)
            meant = f"; did you mean {near[0]}?" if near else f"; see `{ctx.command_path} --help`"
            raise click.UsageError(f"there is no command {name}{meant}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        rows = []
        for name in self.list_commands(ctx):
            if name in self.lazy:
                rows.append((name, self.lazy[name][2]))
            else:
                command = super().get_command(ctx, name)
                rows.append((name, command.get_short_help_str(80) if command else ""))
        with formatter.section("Commands"):
            formatter.write_dl(rows)
