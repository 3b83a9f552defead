import io
import json

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


def test_a_text_line_is_one_line_whatever_it_holds(lines):
    read, out = lines
    log.configure("text", "info", out)
    log.get("x").warning("odd", name="a\nfake line\x1b[31m", empty="")
    (line,) = read()
    assert line.split(" ", 1)[1] == 'warning x: odd name="a\\nfake line\\x1b[31m" empty=""'


def test_lines_below_the_level_are_not_written(lines):
    read, out = lines
    log.configure("text", "warning", out)
    log.get("x").info("quiet")
    assert read() == []


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
