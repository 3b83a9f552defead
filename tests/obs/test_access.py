"""Access lines look like the log's own and cost little."""

import io
import json
import os
from pathlib import Path

from llmgw.obs import log
from llmgw.obs.access import AccessLog

FIELDS = {"id": "r-1", "key_id": "key-A", "code": "", "status": 200}


def written(fmt: str, level: str = "info") -> str:
    stream = io.StringIO()
    AccessLog("gateway", fmt, level, stream, wall=lambda: 1_800_000_000.25)("request", FIELDS)
    return stream.getvalue()


def general(fmt: str) -> str:
    stream = io.StringIO()
    log.configure(fmt, "info", stream)
    log.get("gateway").info("request", **FIELDS)
    return stream.getvalue()


def test_a_text_line_is_the_general_logs_line() -> None:
    line = written("text")
    assert line == '2027-01-15T08:00:00.250000Z info    gateway: request id=r-1 key_id=key-A code="" status=200\n'
    assert line.partition(" ")[2] == general("text").partition(" ")[2]


def test_a_json_line_holds_what_the_general_logs_line_holds() -> None:
    ours, theirs = json.loads(written("json")), json.loads(general("json"))
    assert ours.pop("time") == "2027-01-15T08:00:00.250000Z"
    theirs.pop("time")
    assert ours == theirs


def test_nothing_is_written_above_info() -> None:
    assert written("text", "warning") == ""
    assert written("json", "error") == ""


def test_a_full_disk_costs_lines_and_ends_no_request(tmp_path: Path) -> None:
    """A server whose log lay on the full disk ended at the first request it logged."""
    with open("/dev/full", "w") as out, open(tmp_path / "log", "w") as roomy:
        log = AccessLog("gateway", stream=out)
        for _ in range(2):
            log("request", {"id": "x" * 10_000})
        os.dup2(roomy.fileno(), out.fileno())
        log("request", {"id": "a"})
        log("request", {"id": "b"})
    written = (tmp_path / "log").read_text().splitlines()
    assert written[-2].endswith("request id=a lost_lines=2")
    assert written[-1].endswith("request id=b")
