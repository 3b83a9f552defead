"""Following a replica from its download to its first answer: bars on a terminal, a line per change elsewhere."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from llmgw.cli.output import fetch_text

_EVERY_S = 0.5
_SETTLED = ("ready", "failed")


def watch_replicas(
    ask: Callable[[], Sequence[dict[str, Any]]], *, wait_for_first: bool = False
) -> Sequence[dict[str, Any]]:
    """Show progress until every replica is ready or failed; return the last answer. Ctrl-C ends the watching only.

    `wait_for_first` keeps waiting while there is no replica yet.
    """
    follow = _follow_bars if sys.stderr.isatty() else _follow_lines
    return follow(ask, wait_for_first)


def _is_settled(found: Sequence[dict[str, Any]], wait_for_first: bool) -> bool:
    return (bool(found) or not wait_for_first) and all(replica["state"] in _SETTLED for replica in found)


def _follow_lines(ask: Callable[[], Sequence[dict[str, Any]]], wait_for_first: bool) -> Sequence[dict[str, Any]]:
    said: dict[str, str] = {}
    while True:
        found = ask()
        for replica in found:
            text = " ".join(filter(None, [replica["state"], fetch_text(replica.get("fetch")), replica.get("error")]))
            if said.get(replica["id"]) != text:
                said[replica["id"]] = text
                click.echo(f"{replica['id']}: {text}", err=True)
        if _is_settled(found, wait_for_first):
            return found
        time.sleep(_EVERY_S)


def _follow_bars(ask: Callable[[], Sequence[dict[str, Any]]], wait_for_first: bool) -> Sequence[dict[str, Any]]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    bars: dict[str, Any] = {}
    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as progress:
        while True:
            found = ask()
            for replica in found:
                fetch = replica.get("fetch") or {}
                if replica["id"] not in bars:
                    bars[replica["id"]] = progress.add_task("", total=None)
                more = {"completed": fetch["done"], "total": fetch.get("total")} if fetch else {}
                what = f"{replica['id']} {replica['state']}"
                progress.update(bars[replica["id"]], description=what, **more)
            if _is_settled(found, wait_for_first):
                return found
            time.sleep(_EVERY_S)
