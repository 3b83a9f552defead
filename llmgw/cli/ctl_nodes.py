"""ctl commands about nodes: nodes, cordon, uncordon, logs."""

from typing import Any

import click

from llmgw.cli.connection import Connection, connected
from llmgw.cli.failure import Failure
from llmgw.cli.lazy import SETTINGS
from llmgw.cli.output import show_facts, show_json, show_table, size

_STATES = click.Choice(["ready", "cordoned", "draining", "unreachable"])


@click.command(context_settings=SETTINGS)
@click.argument("node", required=False)
@click.option("--state", type=_STATES, help="Only nodes in that state.")
@connected
def nodes(connection: Connection, node: str | None, state: str | None) -> None:
    """List nodes, or show one."""
    if node is not None:
        _show_node(connection, node)
        return
    found = connection.call("list_nodes", query={"state": state})
    if connection.as_json:
        show_json(found)
        return
    rows = [
        (n["id"], n["state"], n["address"], n.get("cpu_count"), size(n.get("memory_bytes") or None),
         size(n.get("memory_free_bytes") or None), n.get("gpu_total", 0), n.get("gpu_free", 0),
         len(n.get("replicas", [])), n.get("version"))
        for n in found
    ]  # fmt: skip
    heads = ("NODE", "STATE", "ADDRESS", "CORES", "MEMORY", "FREE", "GPUS", "FREE", "REPLICAS", "AGENT")
    show_table(heads, rows, "There are no nodes; an agent appears here when it has reached the server.")


def _show_node(connection: Connection, node: str) -> None:
    found = connection.call("show_node", {"id": node})
    if connection.as_json:
        show_json(found)
        return
    load: dict[str, Any] = found.get("load") or {}
    show_facts(
        [
            *((name, found.get(name)) for name in
              ("id", "address", "state", "since", "last_seen", "version", "os", "arch", "cpu_count", "cpu_model")),
            ("memory", f"{size(found.get('memory_free_bytes'))} free of {size(found.get('memory_bytes'))}"),
            *((f"disk {disk['path']}", f"{size(disk['free'])} free of {size(disk['total'])}")
              for disk in found.get("disk", [])),
            *load.items(),
            *(("engine", " ".join(filter(None, [e["engine"], e.get("version"), e.get("state"), e.get("detail")])))
              for e in found.get("engines", [])),
            *(("gpu", _gpu(card)) for card in found.get("gpus", [])),
            ("models", found.get("models")),
            ("replicas", found.get("replicas")),
            *(("warning", warning) for warning in found.get("warnings", [])),
        ]
    )  # fmt: skip


def _gpu(card: dict[str, Any]) -> str:
    use = card.get("replica") or "free"
    if not card.get("healthy", True):
        use = f"not used: {card.get('problem') or 'it is not healthy'}"
    return f"{card['index']} class {card['class'] or '?'}, {card['name'] or '?'}, {card['memory_total_mb']} MiB, {use}"


@click.command(context_settings=SETTINGS)
@click.argument("node")
@connected
def cordon(connection: Connection, node: str) -> None:
    """Keep new replicas off a node."""
    _changed(connection, "cordon", node)


@click.command(context_settings=SETTINGS)
@click.argument("node")
@connected
def uncordon(connection: Connection, node: str) -> None:
    """Let new replicas onto a node again."""
    _changed(connection, "uncordon", node)


def _changed(connection: Connection, operation: str, node: str) -> None:
    found = connection.call(operation, {"id": node})
    if connection.as_json:
        show_json(found)
    else:
        click.echo(f"{found['id']} is {found['state']}")


@click.command(context_settings=SETTINGS)
@click.argument("name", metavar="NODE|REPLICA")
@click.option("--lines", type=click.IntRange(1, 5000), default=200, show_default=True, help="How many lines.")
@connected
def logs(connection: Connection, name: str, lines: int) -> None:
    """Print the end of an agent's or a replica's log."""
    query: dict[str, Any] = {"lines": lines}
    places = _places(connection, name)
    found = [connection.call("node_logs", {"id": node}, query={**query, "shard": shard}) for node, shard in places]
    if connection.as_json:
        show_json(found[0] if len(found) == 1 else found)
        return
    for log in found:
        if len(found) > 1:
            click.echo(f"--- {log['shard']} on {log['node']}")
        for line in log["lines"]:
            click.echo("".join(c if c.isprintable() or c == "\t" else "?" for c in line))


def _places(connection: Connection, name: str) -> list[tuple[str, str | None]]:
    """Return (node, shard) of what is named: a node's own log, or those of a replica's shards."""
    for replica in connection.call("list_replicas"):
        if replica["id"] == name:
            return [(shard["node"], shard["id"]) for shard in replica.get("shards", [])]
        for shard in replica.get("shards", []):
            if shard["id"] == name:
                return [(shard["node"], name)]
    if any(node["id"] == name for node in connection.call("list_nodes")):
        return [(name, None)]
    raise Failure(f"there is no node and no replica {name}; `llmgw ctl nodes` and `llmgw ctl replicas` list them")
