"""`llmgw ctl cert`: the cluster's certificate authority by hand, on files, with no server running (41 I-257)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from llmgw.config.refusal import Refused
from llmgw.ops import pki


class _Sentence(click.ClickException):
    """A refusal: one sentence on standard error, exit 1."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        """Print the sentence alone."""
        click.echo(self.format_message(), err=True)


_DIRECTORY = click.Path(file_okay=False, path_type=Path)
_dir = click.option(
    "--dir", "directory", type=_DIRECTORY, required=True, metavar="DIR", help="Folder of the authority."
)
_out = click.option("--out", type=_DIRECTORY, required=True, metavar="DIR", help="Folder to write to.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def cert() -> None:
    """Make the cluster's authority and sign certificates."""


@cert.command("init-ca")
@_dir
@click.option(
    "--force", is_flag=True, help="Replace an authority; every certificate of the old one is worthless then."
)
@_json
def init_ca(directory: Path, force: bool, as_json: bool) -> None:
    """Make a certificate authority: ca.pem and ca-key.pem.

    Keep ca-key.pem on the machine you add nodes from; no server and no node needs it.
    """
    files = _sentences(lambda: pki.init_ca(directory, force=force))
    _say(as_json, {"ca": files.ca, "key": files.key})


@cert.command("issue-server")
@click.argument("name")
@click.option(
    "--host", "hosts", multiple=True, metavar="HOST", help="A name or address that agents dial; repeat it."
)
@_dir
@_out
@_json
def issue_server(name: str, hosts: tuple[str, ...], directory: Path, out: Path, as_json: bool) -> None:
    """Sign a control plane's certificate: server.pem and server-key.pem.

    NAME is written into the certificate for people to read. Agents check the host they dial against --host.
    """
    files = _sentences(lambda: pki.issue_server(directory, name, hosts, out))
    _say(as_json, {"ca": files.ca, "cert": files.cert, "key": files.key})


@cert.command("issue-agent")
@click.argument("node")
@_dir
@_out
@_json
def issue_agent(node: str, directory: Path, out: Path, as_json: bool) -> None:
    """Sign a node's certificate: agent-NODE.pem and agent-NODE-key.pem.

    NODE is the node's id from then on; node_id in its agent.yaml must be the same.
    """
    files = _sentences(lambda: pki.issue_agent(directory, node, out))
    _say(as_json, {"ca": files.ca, "cert": files.cert, "key": files.key})


def _sentences(act: Callable[[], pki.PemFiles]) -> pki.PemFiles:
    try:
        return act()
    except Refused as refusal:
        raise _Sentence(refusal.sentence) from None


def _say(as_json: bool, files: dict[str, Path]) -> None:
    if as_json:
        click.echo(json.dumps({name: str(path) for name, path in files.items()}))
        return
    for path in files.values():
        click.echo(str(path))
