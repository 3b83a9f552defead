"""What an operator may write in auth.store."""

from pathlib import Path

import pytest

from llmgw.config.refusal import Refused
from llmgw.store.url import shown, sqlite_path, store_url


def test_paths_and_addresses_are_told_apart(tmp_path: Path) -> None:
    assert sqlite_path(store_url("/a/b c.db")) == Path("/a/b c.db")
    assert sqlite_path(store_url("sqlite:////a/b.db")) == Path("/a/b.db")
    assert sqlite_path(store_url("rel#1?.db")) == Path("rel#1?.db")
    for text in ("postgres://u:p@db:5433/x", "postgresql://u:p@db:5433/x"):
        url = store_url(text)
        assert sqlite_path(url) is None
        assert (url.drivername, url.host, url.port) == ("postgresql+psycopg", "db", 5433)
        assert shown(url) == "postgresql://u:***@db:5433/x"


def test_an_address_may_be_in_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "dsn"
    file.write_text("postgres://db/x\n")
    assert store_url(f"@{file}").host == "db"
    monkeypatch.setenv("LLMGW_DSN", "postgres://db2/x")
    assert store_url("env:LLMGW_DSN").host == "db2"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "is empty"),
        ("mysql://db/x", "mysql://"),
        ("@/nowhere/file", "cannot be read"),
        ("env:LLMGW_SURELY_NOT_SET", "not set"),
        ("vault:secret/db", "vault"),
        ("postgres://db:port/x", "is not an address"),
    ],
)
def test_anything_else_is_refused(text: str, part: str) -> None:
    with pytest.raises(Refused) as caught:
        store_url(text)
    assert part in caught.value.sentence
