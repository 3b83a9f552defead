"""`llmgw keys` as a person meets it: output, sentences, exit codes, audit."""

import json
import sqlite3
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner, Result

from llmgw.cli.keys import actor_name, find_store, keys
from llmgw.config.refusal import Refused
from llmgw.store.loop import Store
from llmgw.wire.api_key import is_whole


@pytest.fixture
def data(tmp_path: Path) -> Path:
    async def make() -> None:
        async with Store(str(tmp_path / "store/llmgw.db")):
            pass

    (tmp_path / "store").mkdir()
    anyio.run(make, backend="trio")
    return tmp_path


def _llmgw_keys(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(keys, [*arguments, "--data", str(data)])


def test_a_key_is_made_listed_and_revoked(data: Path) -> None:
    made = _llmgw_keys(data, "create", "--name", "ci", "--expires", "720h")
    assert made.exit_code == 0
    assert is_whole(made.stdout.strip())
    assert "not shown again" in made.stderr
    [listed] = json.loads(_llmgw_keys(data, "list", "--json").stdout)
    assert listed["prefix"] == made.stdout[:12]
    assert "hash" not in listed
    assert listed["expires_at"].endswith("Z")
    for named in (made.stdout.strip(), listed["prefix"], listed["id"]):
        assert _llmgw_keys(data, "revoke", named).exit_code == 0
    assert json.loads(_llmgw_keys(data, "list", "--json").stdout) == []
    assert "revoked" in _llmgw_keys(data, "list", "--all").stdout


def test_json_of_create_holds_the_key_once(data: Path) -> None:
    made = json.loads(_llmgw_keys(data, "create", "--json").stdout)
    assert is_whole(made["key"])
    assert made["project"] == "default/default/default"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "part"),
    [
        (["create", "--project", "nowhere"], 1, "there is no project"),
        (["create", "--expires", "5s"], 1, "at least 1m"),
        (["create", "--expires", "soon"], 2, "is not a duration"),
        (["revoke", "llmgw_zzzzzz"], 1, "there is no key"),
        (["revoke"], 2, "Missing argument"),
        (["list", "--nonsense"], 2, "No such option"),
    ],
)
def test_refusals_are_a_sentence_with_its_exit_code(
    data: Path, arguments: list[str], exit_code: int, part: str
) -> None:
    result = _llmgw_keys(data, *arguments)
    assert result.exit_code == exit_code
    assert part in result.stderr
    assert result.stdout == ""
    if exit_code == 1:
        assert result.stderr.count("\n") == 1


def test_changes_and_refused_changes_are_audited_with_who_ran_them(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "ada lovelace")
    _llmgw_keys(data, "create")
    _llmgw_keys(data, "create", "--project", "nowhere")
    with sqlite3.connect(data / "store/llmgw.db") as connection:
        events = connection.execute(
            "SELECT actor, source, action, result, status FROM audit_events"
        ).fetchall()
    assert events == [
        ("ada-lovelace", "cli", "key.create", "ok", 0),
        ("ada-lovelace", "cli", "key.create", "refused", 404),
    ]


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    result = CliRunner().invoke(keys, ["list", "--store", str(tmp_path / "typo.db")])
    assert result.exit_code == 1
    assert "there is no store at" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_postgresql_that_is_away_is_one_sentence_without_its_password() -> None:
    result = CliRunner().invoke(keys, ["list", "--store", "postgres://u:hunter2@127.0.0.1:1/x"])
    assert result.exit_code == 1
    assert "does not answer" in result.stderr
    assert "hunter2" not in result.stderr


def test_the_store_is_found_by_flag_configuration_data_folder_or_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "server.yaml"
    config.write_text("auth:\n  store: postgres://db/llmgw\n")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert find_store("a.db", str(config), "d") == "a.db"
    assert find_store(None, str(config), "d") == "postgres://db/llmgw"
    assert find_store(None, None, "d") == "d/store/llmgw.db"
    assert find_store(None, None, None) == "/var/lib/llmgw/llmgw.db"
    (tmp_path / "llmgw/store").mkdir(parents=True)
    (tmp_path / "llmgw/store/llmgw.db").touch()
    assert find_store(None, None, None) == str(tmp_path / "llmgw/store/llmgw.db")
    with pytest.raises(Refused):
        find_store(None, str(tmp_path / "none.yaml"), None)


def test_the_actor_is_a_name_that_the_audit_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "é" * 100)
    assert actor_name() == "-" * 64
