from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmgw.cli import find
from llmgw.cli.failure import Failure


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of `llmgw up`, and nothing else to be found."""
    for name in ("LLMGW_ADMIN_URL", "LLMGW_ADMIN_TOKEN", "SUDO_USER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    folder = tmp_path / "llmgw"
    folder.mkdir()
    up = {"admin": "http://127.0.0.1:9999", "token_file": str(folder / "token")}
    (folder / "up.json").write_text(json.dumps(up))
    return folder


def test_a_named_server_comes_before_the_environment_and_that_before_up(data: Path, monkeypatch: pytest.MonkeyPatch):
    assert find.find_server(None, None).admin == "http://127.0.0.1:9999"
    monkeypatch.setenv("LLMGW_ADMIN_URL", "10.0.0.1:1")
    assert find.find_server(None, None) == find.Place("http://10.0.0.1:1", find.SYSTEM_TOKEN)
    assert find.find_server("http://10.0.0.2:2", None).admin == "http://10.0.0.2:2"


def test_an_up_named_by_its_address_keeps_its_own_token_file(data: Path):
    assert find.find_server("127.0.0.1:9999", None).token_file == data / "token"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"admin": "x"}', "null"])
def test_a_broken_up_json_is_passed_over(data: Path, text: str):
    (data / "up.json").write_text(text)
    assert find.find_server(None, None) == find.Place(find.DEFAULT_ADDRESS, find.SYSTEM_TOKEN)
    with pytest.raises(Failure, match=r"up\.json is not there"):
        find.find_server(None, str(data))


def test_the_environments_token_comes_before_the_file(data: Path, monkeypatch: pytest.MonkeyPatch):
    (data / "token").write_text("from-file\n")
    place = find.find_server(None, None)
    assert find.find_token(place) == "from-file"
    monkeypatch.setenv("LLMGW_ADMIN_TOKEN", "from-env")
    assert find.find_token(place) == "from-env"
    monkeypatch.setenv("LLMGW_ADMIN_TOKEN", "two words")
    with pytest.raises(Failure, match="LLMGW_ADMIN_TOKEN holds no admin token"):
        find.find_token(place)


@pytest.mark.covers("C-08")
def test_the_actor_is_sudos_user_with_unfit_characters_replaced(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SUDO_USER", "jürgen o'x" + "y" * 80)
    assert find.actor() == ("j-rgen-o-x" + "y" * 80)[:64]
