from __future__ import annotations

import pytest

from llmgw.cli import output


@pytest.mark.parametrize(
    ("count", "text"), [(None, "?"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**41, "2.0 TiB")]
)
def test_sizes_are_for_people(count: int | None, text: str):
    assert output.size(count) == text


def test_a_download_of_unknown_size_says_how_much_is_here():
    assert output.fetch_text({"source": "x", "done": 1024}) == "1.0 KiB so far"
    assert output.fetch_text({"source": "x", "done": 5, "total": 20}) == "25 % of 20 B"
    assert output.fetch_text(None) == ""


def test_columns_are_aligned_and_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]):
    output.show_table(("A", "B"), [("x\x1b[2J\n", True), ("long-name", ["p", "q"])], "none")
    assert capsys.readouterr().out == "A          B\nx?[2J?     yes\nlong-name  p, q\n"


def test_no_rows_is_a_sentence_on_standard_error(capsys: pytest.CaptureFixture[str]):
    output.show_table(("A",), [], "There is nothing.")
    assert capsys.readouterr() == ("", "There is nothing.\n")
