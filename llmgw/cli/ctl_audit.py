"""`ctl audit`: who changed what (C-58)."""

from typing import Any

import click

from llmgw.cli.connection import Connection, connected
from llmgw.cli.lazy import SETTINGS
from llmgw.cli.output import show_json, show_table

_SOURCES = click.Choice(["api", "console", "web", "cli", "scim", "oidc", "system"])
_RESULTS = click.Choice(["ok", "refused", "failed"])


class _Moment(click.ParamType):
    """A time or a duration before now; anything else is a usage error."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text as the API takes it."""
        from datetime import datetime

        from llmgw.config.duration import parse_duration_s
        from llmgw.config.refusal import Refused

        try:
            parse_duration_s(value)
            return value
        except Refused:
            pass
        try:
            if datetime.fromisoformat(value).tzinfo is not None:
                return value
        except ValueError:
            pass
        return self.fail(f'{value!r} is neither a duration like "24h" nor a time like 2026-01-31T12:00:00Z', param, ctx)


@click.command(context_settings=SETTINGS)
@click.option("--since", type=_Moment(), metavar="T", help='Not before: a time, or a duration like "24h".')
@click.option("--until", type=_Moment(), metavar="T", help="Before: a time, or a duration before now.")
@click.option("--actor", metavar="A", help="Only this actor's.")
@click.option("--source", type=_SOURCES, help="Only from there.")
@click.option("--action", metavar="P", help='Only this action; "model.*" for all that begin so.')
@click.option("--target", metavar="SCOPE", help='Only to this, like "model:chat".')
@click.option("--result", type=_RESULTS, help="Only with this result.")
@click.option("--limit", type=click.IntRange(1, 1000), default=200, show_default=True, help="At most so many.")
@connected
def audit(connection: Connection, **ask: Any) -> None:
    """Show who changed what."""
    found = connection.call("list_audit", query=ask)
    if connection.as_json:
        show_json(found)
        return
    rows = [
        (e["at"], e["actor"], e["source"], e["action"], e["target"], e["result"], e.get("error") or e.get("fields"))
        for e in found
    ]
    show_table(("TIME", "ACTOR", "SOURCE", "ACTION", "TARGET", "RESULT", "DETAIL"), rows, "There are no such events.")
