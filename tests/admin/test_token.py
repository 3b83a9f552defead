from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest

from llmgw.admin.token import Throttle, TokenCheck, load_or_make
from llmgw.config.refusal import Refused
from tests.admin.admin_server import TOKEN, RunningAdmin


def test_the_first_start_makes_64_hex_characters_in_a_0600_file(tmp_path: Path):
    old = os.umask(0)
    try:
        made = load_or_make(tmp_path / "secrets" / "admin-token")
    finally:
        os.umask(old)
    assert re.fullmatch(r"[0-9a-f]{64}", made)
    assert (tmp_path / "secrets" / "admin-token").stat().st_mode & 0o777 == 0o600
    assert load_or_make(tmp_path / "secrets" / "admin-token") == made
    assert [path.name for path in (tmp_path / "secrets").iterdir()] == ["admin-token"]


def test_two_first_starts_agree_on_one_token(tmp_path: Path):
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.append(load_or_make(tmp_path / "t"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert len(set(made)) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o666, 0o620, 0o440])
def test_a_file_that_others_can_read_or_change_is_refused(tmp_path: Path, mode: int):
    load_or_make(tmp_path / "t")
    (tmp_path / "t").chmod(mode)
    with pytest.raises(Refused, match=f"mode {mode:04o}"):
        load_or_make(tmp_path / "t")


@pytest.mark.parametrize("text", ["", "\n", "short", "with a space in the middle of it", "x" * 600])
def test_a_file_that_holds_no_token_is_refused(tmp_path: Path, text: str):
    (tmp_path / "t").write_text(text)
    (tmp_path / "t").chmod(0o600)
    with pytest.raises(Refused, match="holds no token"):
        load_or_make(tmp_path / "t")


def test_a_folder_in_its_place_is_refused(tmp_path: Path):
    with pytest.raises(Refused, match="cannot be read"):
        load_or_make(tmp_path)


@pytest.mark.parametrize(
    ("header", "right"),
    [(f"Bearer {TOKEN}", True), (f"bearer {TOKEN}", True), (f"Basic {TOKEN}", False), (TOKEN, False), (None, False),
     ("", False), ("Bearer", False), ("Bearer ", False), (f"Bearer {TOKEN}x", False), (f"Bearer {TOKEN[:-1]}", False),
     (f"Bearer {TOKEN.upper()}", False), ("Bearer é\udcff", False)],
)  # fmt: skip
def test_only_the_whole_token_is_right(header: str | None, right: bool):
    assert TokenCheck(TOKEN).is_right(header) is right


def test_ten_wrong_tokens_close_the_door_of_that_address_for_the_minute():
    throttle = Throttle()
    for second in range(10):
        assert throttle.wait_s("a", second) == 0
        throttle.wrong("a", second)
    assert throttle.wait_s("a", 10) == 50
    assert throttle.wait_s("b", 10) == 0
    assert throttle.wait_s("a", 59.5) == 0.5
    assert throttle.wait_s("a", 60) == 0


def test_the_table_of_addresses_is_bounded():
    throttle = Throttle()
    for number in range(10_000):
        throttle.wrong(f"address-{number}", 0)
    assert len(throttle._wrong) == 4096


def test_the_eleventh_guess_is_429_and_a_missing_token_is_no_guess(admin: RunningAdmin):
    for _ in range(15):
        assert admin.ask("GET", "/api/v1/nodes", headers={"Authorization": None}).status == 401
    wrong = [admin.ask("GET", "/api/v1/nodes", headers={"Authorization": "Bearer x"}) for _ in range(11)]
    assert [answer.status for answer in wrong] == [401] * 10 + [429]
    assert 1 <= int(wrong[-1].headers["retry-after"]) <= 61
    assert admin.ask("GET", "/api/v1/nodes").status == 429
    assert admin.ask("GET", "/health").status == 200
