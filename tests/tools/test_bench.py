"""The table that `build.py bench` prints: medians, ratios to HAProxy, and faults that are not hidden."""

from __future__ import annotations

from tools.bench import table


def line(name: str, unary: float, errors: int = 0) -> dict:
    return {
        "name": name,
        "u50": {"cpu_us_req": unary, "errors": errors, "unfinished": 0},
        "sp50": {"cpu_us_chunk": unary / 2, "chunk_p50_us": 400, "errors": 0, "unfinished": 0},
        "rss_end_kib": 51_200,
    }


def cells(text: str, name: str) -> list[str]:
    row = next(row for row in text.splitlines() if row.startswith(f"| {name} "))
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_a_figure_is_the_median_of_the_rounds() -> None:
    lines = [line("haproxy", 50), *(line("llmgw", value) for value in (900, 100, 200))]
    assert cells(table(lines), "llmgw")[1] == "200 (4.00x)"


def test_a_scenario_that_was_not_run_is_a_dash() -> None:
    assert cells(table([line("haproxy", 50)]), "haproxy")[3] == "-"


def test_the_engine_itself_has_no_ratio_and_no_memory() -> None:
    direct = {"name": "direct", "u50": {"errors": 0}, "sp50": {"chunk_p50_us": 47, "errors": 0}}
    row = cells(table([direct, line("haproxy", 50)]), "direct")
    assert (row[1], row[4], row[6]) == ("-", "47.0", "-")


def test_errors_are_counted_over_all_rounds() -> None:
    lines = [line("haproxy", 50), line("llmgw", 100, errors=3), line("llmgw", 100, errors=-1)]
    assert cells(table(lines), "llmgw")[-1] == "4"
