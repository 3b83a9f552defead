"""`llmgw ctl cert`: files, sentences, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from llmgw.cli.cert import cert


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cert, list(arguments))


def test_the_authority_signs_a_server_and_an_agent_and_says_what_it_wrote(tmp_path: Path) -> None:
    pki, out = str(tmp_path / "pki"), str(tmp_path / "out")
    assert _run("init-ca", "--dir", pki).output.split() == [f"{pki}/ca.pem", f"{pki}/ca-key.pem"]
    server = _run("issue-server", "cp-1", "--host", "127.0.0.1", "--host", "cp-1", "--dir", pki, "--out", out)
    assert server.output.split() == [f"{out}/ca.pem", f"{out}/server.pem", f"{out}/server-key.pem"]
    agent = _run("issue-agent", "n1", "--dir", pki, "--out", out, "--json")
    files = json.loads(agent.output)
    assert files == {"ca": f"{out}/ca.pem", "cert": f"{out}/agent-n1.pem", "key": f"{out}/agent-n1-key.pem"}
    assert all(Path(path).is_file() for path in files.values())


def test_server_files_may_lie_beside_the_authority(tmp_path: Path) -> None:
    pki = str(tmp_path)
    _run("init-ca", "--dir", pki)
    assert _run("issue-server", "llmgw-ctl", "--host", "a", "--dir", pki, "--out", pki).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "ca-key.pem", "ca.pem", "server-key.pem", "server.pem",
    ]  # fmt: skip


def test_a_refusal_is_one_sentence_and_exit_1(tmp_path: Path) -> None:
    missing = _run("issue-agent", "n1", "--dir", str(tmp_path), "--out", str(tmp_path))
    assert missing.exit_code == 1
    assert missing.output.count("\n") == 1
    assert "init-ca" in missing.output
    _run("init-ca", "--dir", str(tmp_path))
    again = _run("init-ca", "--dir", str(tmp_path))
    assert (again.exit_code, again.output.count("\n")) == (1, 1)
    assert _run("init-ca", "--dir", str(tmp_path), "--force").exit_code == 0


def test_a_usage_error_is_exit_2() -> None:
    assert _run("issue-agent").exit_code == 2
    assert _run("init-ca").exit_code == 2
