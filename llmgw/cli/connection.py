"""The options by which every ctl command finds its server, and the call that turns a refusal into a sentence."""

from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any

import click

from llmgw.cli.failure import Failure
from llmgw.cli.find import actor, find_server, find_token


class Connection:
    """Asks the server that the options of `ctl` or of the command itself name."""

    def __init__(self, server: str | None, data: str | None, as_json: bool) -> None:
        from llmgw.admin.client import AdminClient, ClientFailure

        self._failure = ClientFailure
        self.as_json = as_json
        place = find_server(server, data)
        try:
            self._client = AdminClient(place.admin, find_token(place), actor())
        except ClientFailure as failure:
            raise Failure(failure.sentence) from None

    def call(
        self, operation: str, params: Mapping[str, str] | None = None, *,
        query: Mapping[str, Any] | None = None, body: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the decoded answer. Raises Failure with the server's sentence."""
        try:
            return self._client.call(operation, params, query=query, body=body)
        except self._failure as failure:
            raise Failure(failure.sentence) from None


def connected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--server`, `--data` and `--json`, and a Connection as its first argument."""

    @click.pass_context
    def run(context: click.Context, /, server: str | None, data: str | None, as_json: bool, **given: Any) -> Any:
        above = context.find_root().meta
        connection = Connection(
            server or above.get("llmgw.server"), data or above.get("llmgw.data"), as_json
        )
        return command(connection, **given)

    wrapped = update_wrapper(run, command)
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option("--data", metavar="DIR", help="Data folder of the `llmgw up` to ask."),
        click.option("--server", "--admin", "server", metavar="URL", help="Admin address of the server to ask."),
    ):
        wrapped = option(wrapped)
    return wrapped
