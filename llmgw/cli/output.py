"""What commands print: plain columns, JSON, and progress bars while something downloads."""

import json
from collections.abc import Sequence
from typing import Any

import click


def show_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def show_table(heads: Sequence[str], rows: Sequence[Sequence[Any]], empty: str) -> None:
    """Print columns, or the sentence `empty` on standard error when there is no row."""
    if not rows:
        click.echo(empty, err=True)
        return
    lines = [list(heads), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def show_facts(facts: Sequence[tuple[str, Any]]) -> None:
    """Print name and value per line; what is empty is left out."""
    kept = [(name, _cell(value)) for name, value in facts if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in kept), default=0)
    for name, value in kept:
        click.echo(f"{name.ljust(width)}  {value}")


def size(count: int | None) -> str:
    """Return bytes for people: 1536 -> "1.5 KiB"; "?" when unknown."""
    if count is None:
        return "?"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def fetch_text(fetch: dict[str, Any] | None) -> str:
    """Return how far a download is: "42 % of 491.4 MiB"."""
    if not fetch:
        return ""
    total, done = fetch.get("total"), fetch.get("done", 0)
    return f"{100 * done // total} % of {size(total)}" if total else f"{size(done)} so far"


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(_cell(item) for item in value) or "-"
    # What others named is printed on one line and cannot drive the terminal.
    return "".join(c if c.isprintable() else "?" for c in str(value))
