import io
import json
import os

import pytest

from llmgw.obs import log

KEY = "llmgw_" + "aB3" * 15 + "z"


@pytest.fixture
def lines():
    out = io.StringIO()
    yield lambda: out.getvalue().splitlines(), out
    log.configure("text", "info")


@pytest.mark.covers("M-651")
def test_a_json_line_holds_time_level_logger_message_and_facts(lines):
    read, out = lines
    log.configure("json", "info", out)
    log.get("agent.link").info("connected", node="n1")
    (line,) = read()
    event = json.loads(line)
    assert event.pop("time").endswith("Z")
    assert event == {"level": "info", "logger": "agent.link", "message": "connected", "node": "n1"}


@pytest.mark.covers("M-651")
def test_a_text_line_is_one_line_whatever_it_holds(lines):
    read, out = lines
    log.configure("text", "info", out)
    log.get("x").warning("odd", name="a\nfake line\x1b[31m", empty="")
    (line,) = read()
    assert line.split(" ", 1)[1] == 'warning x: odd name="a\\nfake line\\x1b[31m" empty=""'


@pytest.mark.covers("M-651")
def test_lines_below_the_level_are_not_written(lines):
    read, out = lines
    log.configure("text", "warning", out)
    log.get("x").info("quiet")
    assert read() == []


def test_a_full_disk_costs_lines_and_ends_nobody(lines, tmp_path):
    """A server whose log lay on the full disk ended at the first request it logged."""
    with open("/dev/full", "w") as out, open(tmp_path / "log", "w") as roomy:
        log.configure("text", "info", out)
        for _ in range(3):
            log.get("x").info("lost" * 3000)
        os.dup2(roomy.fileno(), out.fileno())
        log.get("x").info("there is room again")
        log.get("x").info("and again")
    written = (tmp_path / "log").read_text().splitlines()
    assert written[-2].endswith("x: there is room again lost_lines=3")
    assert written[-1].endswith("x: and again")


@pytest.mark.parametrize("fmt", ["text", "json"])
def test_a_canary_key_never_reaches_the_log(lines, fmt):
    read, out = lines
    log.configure(fmt, "debug", out)
    logger = log.get("x")
    logger.info(f"asked with {KEY}", api_key="canary-secret", where=f"https://u:canary-secret@h/{KEY}")
    logger.info("nested", data={"password": "canary-secret", "list": [KEY]})
    try:
        raise RuntimeError(f"broke on {KEY}")
    except RuntimeError:
        logger.exception("failed")
    text = "\n".join(read())
    assert KEY not in text
    assert "canary-secret" not in text
    assert "RuntimeError" in text
