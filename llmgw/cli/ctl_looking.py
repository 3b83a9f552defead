"""ctl commands that only look: status, replicas, explain-placement, request, version."""

from typing import Any

import click

from llmgw.cli.connection import Connection, connected
from llmgw.cli.lazy import SETTINGS
from llmgw.cli.output import fetch_text, show_facts, show_json, show_table
from llmgw.cli.progress import watch_replicas


@click.command(context_settings=SETTINGS)
@connected
def status(connection: Connection) -> None:
    """Show the fleet in one answer."""
    found = connection.call("summary")
    if connection.as_json:
        show_json(found)
        return
    show_facts(
        [
            ("release", found.get("version")),
            ("nodes", _counts(found.get("nodes", {}))),
            *(("gpus " + gpu["class"], _gpu(gpu)) for gpu in found.get("gpus", [])),
            *(("fabric " + one["fabric"], _fabric(one)) for one in found.get("fabrics", [])),
            ("replicas", _counts(found.get("replicas", {}))),
            ("models", _counts(found.get("models", {}))),
            ("fit nowhere", found.get("unplaceable")),
            *((f"parked {one['model']}", f"{one['failures']} failed starts: {one['reason']}")
              for one in found.get("parked", [])),
            *((f"idle {one['id']}", f"{one['idle_seconds'] // 60} min, {one['gpus']} GPUs")
              for one in found.get("idle_replicas", [])),
            ("store", found.get("store_error")),
        ]
    )  # fmt: skip


@click.command(context_settings=SETTINGS)
@click.option("--model", metavar="MODEL", help="Only that model's.")
@click.option("--watch", is_flag=True, help="Follow downloads and starts until every replica is ready or failed.")
@connected
def replicas(connection: Connection, model: str | None, watch: bool) -> None:
    """List replicas."""
    if watch:
        watch_replicas(lambda: connection.call("list_replicas", query={"model": model}))
    found = connection.call("list_replicas", query={"model": model})
    if connection.as_json:
        show_json(found)
        return
    rows = [
        (r["id"], r["model"], r["state"], r.get("node"), r.get("engine"), r.get("inflight", 0), r.get("idle_seconds"),
         r.get("error") or fetch_text(r.get("fetch")))
        for r in found
    ]  # fmt: skip
    heads = ("REPLICA", "MODEL", "STATE", "NODE", "ENGINE", "REQUESTS", "IDLE S", "DETAIL")
    show_table(heads, rows, "There are no replicas.")


@click.command("explain-placement", context_settings=SETTINGS)
@click.argument("model")
@connected
def explain_placement(connection: Connection, model: str) -> None:
    """Say why a model is where it is, or why not."""
    found = connection.call("placement", {"name": model})
    if connection.as_json:
        show_json(found)
        return
    click.echo(f"{found['model']}: {found['have']} of {found['wanted']} replicas")
    for one in found.get("replicas", []):
        why = f": {one['why']}" if one.get("why") else ""
        click.echo(f"  {one['id']} ({one['profile']}, {one['state']}) on {', '.join(one['nodes'])}{why}")
    if found.get("waiting_for"):
        click.echo(f"  waiting: {found['waiting_for']}")
    if found.get("reason"):
        again = f"; tried again at {found['retry_at']}" if found.get("retry_at") else ""
        state = "parked after" if found.get("parked") else "has"
        click.echo(f"  {state} {found.get('failures', 0)} failed starts, the last: {found['reason']}{again}")
    for profile in found.get("profiles", []):
        click.echo(f"profile {profile['name']}: {'fits' if profile['fits'] else 'fits nowhere'}")
        for node in profile.get("candidates", []):
            click.echo(f"  {node}: fits")
        for rejection in profile.get("rejections", []):
            click.echo(f"  {rejection['node']}: {rejection['reason']}")


@click.command(context_settings=SETTINGS)
@click.argument("request_id", metavar="ID")
@connected
def request(connection: Connection, request_id: str) -> None:
    """Show the accounting of one request. ID is its x-request-id."""
    found = connection.call("show_request", {"id": request_id})
    if connection.as_json:
        show_json(found)
        return
    for number, row in enumerate(found):
        if number:
            click.echo("")
        show_facts(list(row.items()))


@click.command(context_settings=SETTINGS)
@connected
def version(connection: Connection) -> None:
    """Show the release and name of the server."""
    found = connection.call("version")
    if connection.as_json:
        show_json(found)
        return
    leads = "leads" if found.get("leader") else "does not lead"
    click.echo(f"llmgw {found['release']} on {found['name']}, which {leads}")


def _counts(counts: dict[str, Any]) -> str:
    rest = ", ".join(f"{value} {name}" for name, value in counts.items() if name != "total" and value)
    total = counts.get("total", sum(v for v in counts.values() if isinstance(v, int)))
    return f"{total}" + (f" ({rest})" if rest else "")


def _gpu(gpu: dict[str, Any]) -> str:
    free = gpu["total"] - gpu["used"] - gpu["unhealthy"]
    return f"{gpu['total']} ({gpu['used']} used, {free} free, {gpu['unhealthy']} unhealthy)"


def _fabric(one: dict[str, Any]) -> str:
    return (f"{one['nodes']} nodes, {one['nodes_with_weights']} with weights of {one['models_present']} models, "
            f"{one['largest_free_block']} wholly free")  # fmt: skip
