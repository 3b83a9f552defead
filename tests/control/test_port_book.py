from __future__ import annotations

import pytest

from llmgw.config.refusal import Refused
from llmgw.control.port_book import PortBook, parse_port_range


def test_ports_are_per_node_lowest_first_and_rest_for_a_minute() -> None:
    book = PortBook(range(20000, 20002))
    assert [book.take("a", 0.0), book.take("a", 0.0), book.take("a", 0.0)] == [20000, 20001, None]
    assert book.take("b", 0.0) == 20000
    book.give_back("a", 20000, 10.0)
    assert book.take("a", 69.0) is None
    assert book.take("a", 70.0) == 20000


def test_an_adopted_shards_port_is_claimed_once() -> None:
    book = PortBook(range(20000, 20002))
    assert book.claim("a", 20000)
    assert not book.claim("a", 20000)
    assert book.take("a", 0.0) == 20001
    book.give_back("a", 30000, 0.0)


@pytest.mark.parametrize("text", ["", "20000", "a-b", "20999-20000", "80-90", "20000-70000"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(Refused, match=r"control\.port_range"):
        parse_port_range(text)


def test_a_range_is_read_with_both_ends() -> None:
    assert parse_port_range("20000-20999") == range(20000, 21000)
