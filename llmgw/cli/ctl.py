"""`llmgw ctl`: the group; its commands are in files of their own, imported when run."""

import click

from llmgw.cli.lazy import LazyGroup

_LOOK, _NODES, _MODELS = "llmgw.cli.ctl_looking", "llmgw.cli.ctl_nodes", "llmgw.cli.ctl_models"

COMMANDS = {
    "audit": ("llmgw.cli.ctl_audit", "audit", "Show who changed what."),
    "cert": ("llmgw.cli.cert", "cert", "Make the cluster's authority and sign certificates."),
    "cordon": (_NODES, "cordon", "Keep new replicas off a node."),
    "explain-placement": (_LOOK, "explain_placement", "Say why a model is where it is, or why not."),
    "logs": (_NODES, "logs", "Print the end of an agent's or a replica's log."),
    "model": (_MODELS, "model", "Add, show, remove or retry a model."),
    "models": (_MODELS, "models", "List models."),
    "nodes": (_NODES, "nodes", "List nodes, or show one."),
    "replicas": (_LOOK, "replicas", "List replicas."),
    "request": (_LOOK, "request", "Show the accounting of one request."),
    "scale": (_MODELS, "scale", "Change how many replicas a model has."),
    "status": (_LOOK, "status", "Show the fleet in one answer."),
    "uncordon": (_NODES, "uncordon", "Let new replicas onto a node again."),
    "version": (_LOOK, "version", "Show the release and name of the server."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
@click.option("--server", "--admin", "server", metavar="URL", help="Admin address of the server to ask.")
@click.option("--data", metavar="DIR", help="Data folder of the `llmgw up` to ask.")
@click.pass_context
def ctl(context: click.Context, server: str | None, data: str | None) -> None:
    """Look at and change a running cluster.

    It asks the server of --server or LLMGW_ADMIN_URL, else the `llmgw up` of this user, else the service on this
    machine; with the token of LLMGW_ADMIN_TOKEN, else that server's token file.
    """
    context.find_root().meta["llmgw.server"] = server
    context.find_root().meta["llmgw.data"] = data
