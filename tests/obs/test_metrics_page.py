"""docs/metrics.md lists every metric of the program, with its type and labels, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MADE = re.compile(r'\.(counter|gauge|histogram)\(\s*"(llmgw_\w+)",\s*"[^"]+"(?:,\s*[\[(]([^\])]*)[\])])?', re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]+) \|", re.MULTILINE)


def test_the_page_lists_every_metric_as_it_is_made():
    made = {
        name: (kind, ", ".join(re.findall(r'"(\w+)"', labels)) or "–")
        for path in (ROOT / "llmgw").rglob("*.py")
        for kind, name, labels in MADE.findall(path.read_text("utf-8"))
    }
    listed = {name: (kind, labels) for name, kind, labels in ROW.findall((ROOT / "docs/metrics.md").read_text("utf-8"))}
    assert made
    assert listed == made
