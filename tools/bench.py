"""`build.py bench`: what the serving path costs, beside other gateways on the same machine in the same minutes.

The measuring tools (a mock engine, a load generator and a runner that counts the CPU time of a gateway's process tree)
are kept beside the checkout, not in it; LLMGW_BENCH says where when they are elsewhere. Each round measures every
gateway once, in turn, so that what else the machine does falls on all of them; medians over the rounds are compared
with HAProxy's. An absolute number of one run means little, a ratio of the same run does.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tools.environment import need_program
from tools.failure import Failure
from tools.paths import ROOT

PEERS = {"vllm-router": "vllm-router==0.1.17", "litellm": "litellm[proxy]==1.108.7"}
REFERENCE = "haproxy"
REWRITES = {"litellm": ["--loose", "--scale", "0.2", "--settle", "5"], "vllm-router": ["--loose"]}
"""Peers that change the answer's bytes, so that only its shape is checked; the load of a slow one is cut. llmgw itself
gives a stream the name of the model that was asked for, and the mock engine always says the same name."""

COLUMNS = (
    ("unary CPU, us", "u50", "cpu_us_req"),
    ("event CPU sp50, us", "sp50", "cpu_us_chunk"),
    ("event CPU sp200, us", "sp200", "cpu_us_chunk"),
)
DELAYS = (
    ("event delay p50 sp50, us", "sp50", "chunk_p50_us"),
    ("event delay p50 sp200, us", "sp200", "chunk_p50_us"),
)


class Contender(NamedTuple):
    """One gateway: its name, the command that starts it ("" is the engine itself), and the runner's further arguments."""

    name: str
    command: str
    more: Sequence[str] = ()
    variables: dict[str, str] | None = None


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `bench` takes."""
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each gateway (default: 3)")
    parser.add_argument(
        "--only",
        default="u50,sp50,sp200",
        metavar="SCENARIO,...",
        help="scenarios (default: u50,sp50,sp200; `all` takes minutes more)",
    )
    parser.add_argument(
        "--peers",
        default="",
        metavar="NAME,...",
        help=f"also measure these, installing each in an environment of its own: {', '.join(PEERS)}",
    )


def run(python: Path, options: argparse.Namespace) -> int:
    """Measure, keep every line in bench-results/, print a table. Raises Failure when something is missing."""
    tools = _tools()
    need_program("gcc", "gcc")
    need_program("taskset", "util-linux")
    need_program("haproxy", "haproxy")
    peers = [_peer(name, tools) for name in filter(None, options.peers.split(","))]
    lines: list[dict] = []
    results = ROOT / "bench-results" / time.strftime("%Y%m%d-%H%M%S.jsonl")
    results.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="llmgw-bench-") as folder:
        contenders = [Contender("direct", ""), _haproxy(tools), _own(python, Path(folder)), *peers]
        for number in range(options.rounds):
            for contender in contenders:
                print(
                    f"round {number + 1} of {options.rounds}: {contender.name}", file=sys.stderr, flush=True
                )
                lines.append(_measure(tools, contender, options.only))
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
    print(table(lines))
    print(f"\nEvery line: {results.relative_to(ROOT)}", file=sys.stderr)
    return 1 if any(_faults(line) for line in lines) else 0


def table(lines: Sequence[dict]) -> str:
    """Return medians and ratios to HAProxy as a Markdown table, a row for each gateway."""
    names = list(dict.fromkeys(line["name"] for line in lines))
    heads = [title for title, _, _ in COLUMNS + DELAYS]
    rows = [
        "| gateway | " + " | ".join(heads) + " | resident, MB | errors |",
        "|---" * (len(heads) + 3) + "|",
    ]
    for name in names:
        own = [line for line in lines if line["name"] == name]
        cells = [_against(lines, own, scenario, figure) for _, scenario, figure in COLUMNS]
        cells += [_plain(_median(own, scenario, figure)) for _, scenario, figure in DELAYS]
        resident = [line["rss_end_kib"] / 1024 for line in own if "rss_end_kib" in line]
        cells.append(_plain(statistics.median(resident) if resident else None))
        rows.append(f"| {name} | " + " | ".join(cells) + f" | {sum(map(_faults, own))} |")
    return "\n".join(rows)


def _against(lines: Sequence[dict], own: Sequence[dict], scenario: str, figure: str) -> str:
    value = _median(own, scenario, figure)
    reference = _median([line for line in lines if line["name"] == REFERENCE], scenario, figure)
    if value is None:
        return "-"
    return f"{_plain(value)} ({value / reference:.2f}x)" if reference else _plain(value)


def _median(lines: Sequence[dict], scenario: str, figure: str) -> float | None:
    found = [line[scenario][figure] for line in lines if figure in line.get(scenario, {})]
    return statistics.median(found) if found else None


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _faults(line: dict) -> int:
    """Errors and unfinished streams of one measurement; a gateway with either has not been measured."""
    parts = [part for part in line.values() if isinstance(part, dict)]
    return sum(abs(part.get("errors", 0)) + part.get("unfinished", 0) for part in parts)


def _measure(tools: Path, contender: Contender, only: str) -> dict:
    command = [sys.executable, str(tools / "run.py"), "--name", contender.name, *contender.more]
    command += ["--cmd", contender.command] if contender.command else []
    command += [] if only == "all" else ["--only", only]
    command += [] if os.geteuid() == 0 else ["--nice", "0"]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(contender.variables or {})},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    last = ran.stdout.strip().rpartition("\n")[2]
    if ran.returncode or not last.startswith("{"):
        raise Failure(f"{contender.name} could not be measured:\n{(ran.stdout + ran.stderr)[-2000:]}")
    return json.loads(last)


def _tools() -> Path:
    named = os.environ.get("LLMGW_BENCH")
    tools = Path(named) if named else ROOT.parent / "shared" / "bench"
    if not (tools / "run.py").exists():
        raise Failure(
            f"the measuring tools are not in {tools} (run.py is missing): set LLMGW_BENCH to the folder they are in"
        )
    return tools


def _haproxy(tools: Path) -> Contender:
    return Contender(REFERENCE, f"{tools / 'peers.sh'} haproxy {{up}} {{port}}")


def _own(python: Path, folder: Path) -> Contender:
    store = folder / "store.db"
    made = subprocess.run(
        [python, "-m", "llmgw.testing.bench_gateway", "key", store],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise Failure(f"the store of the measured gateway could not be made:\n{made.stderr[-2000:]}")
    command = f"{python} -m llmgw.testing.bench_gateway serve {store} {{port}} {{up}}"
    return Contender("llmgw", command, ["--loose", "--key", made.stdout.strip()])


def _peer(name: str, tools: Path) -> Contender:
    """Return a peer, installed in `.venv-NAME` when it is not there yet."""
    if name not in PEERS:
        raise Failure(f"there is no peer {name}: choose from {', '.join(PEERS)}")
    folder = ROOT / f".venv-{name}"
    stamp = folder / "installed"
    if not stamp.exists() or stamp.read_text("utf-8") != PEERS[name]:
        print(f"Installing {PEERS[name]} into {folder.name}", file=sys.stderr, flush=True)
        made = (
            subprocess.run([sys.executable, "-m", "venv", folder], check=False).returncode
            or subprocess.run(
                [
                    folder / "bin/python",
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--no-input",
                    "--disable-pip-version-check",
                    PEERS[name],
                ],
                check=False,
                stdin=subprocess.DEVNULL,
            ).returncode
        )
        if made:
            raise Failure(f"{PEERS[name]} could not be installed; what pip said is above")
        stamp.write_text(PEERS[name], "utf-8")
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return Contender(
        name, f"{tools / 'peers.sh'} {name} {{up}} {{port}}", REWRITES.get(name, ()), {"PATH": path}
    )
