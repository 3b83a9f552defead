"""One send per piece, and nothing sent that cannot be taken back before there is something to say."""

import email.utils
import re

import pytest
import trio

from llmgw.net.http1_answer import DateField, Http1Answer
from llmgw.wire.http1 import Head


def made(method: str = "GET", version: str = "1.1", keep: bool = True) -> tuple[Http1Answer, list[bytes]]:
    sent: list[bytes] = []

    async def send(data: bytes) -> None:
        sent.append(data)

    head = Head(method, "/", version, [], 0, keep, expects_continue=False)
    return Http1Answer(head, DateField(), send, lambda: keep), sent


def test_a_stream_makes_one_send_a_piece_and_the_head_goes_with_the_first() -> None:
    async def main() -> None:
        answer, sent = made()
        await answer.start(200, [("x", "y")])
        assert (answer.started, sent) == (True, [])
        for piece in (b"a", b"", b"bc"):
            await answer.write(piece)
        await answer.end()
        assert len(sent) == 3
        assert sent[0].endswith(b"\r\n\r\n1\r\na\r\n")
        assert sent[1:] == [b"2\r\nbc\r\n", b"0\r\n\r\n"]

    trio.run(main)


def test_a_whole_answer_is_one_send_and_a_large_one_is_not_copied() -> None:
    async def main() -> None:
        answer, sent = made()
        await answer.respond(200, [], b"abc")
        assert len(sent) == 1
        answer, sent = made()
        large = b"x" * 100_000
        await answer.respond(200, [], large)
        assert sent[1] is large

    trio.run(main)


def test_an_answer_nobody_has_seen_is_taken_back() -> None:
    async def main() -> None:
        answer, sent = made()
        await answer.start(200, [])
        assert answer.take_back()
        await answer.respond(502, [], b"")
        assert sent[0].startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
        assert not answer.take_back()

    trio.run(main)


def test_framing_is_ours_whatever_the_handler_says() -> None:
    async def main() -> None:
        answer, sent = made()
        await answer.respond(200, [("Content-Length", "9"), ("Transfer-Encoding", "x"), ("Date", "x")], b"abc")
        head = sent[0].lower()
        assert head.count(b"content-length") == 1
        assert b"content-length: 3\r\n" in head
        assert b"transfer-encoding" not in head

    trio.run(main)


def test_a_handler_may_ask_to_close() -> None:
    async def main() -> None:
        answer, sent = made()
        await answer.respond(200, [("Connection", "close")], b"")
        assert not answer.keeps_alive
        assert b"connection: close\r\n" in sent[0]

    trio.run(main)


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_has_none(status: int) -> None:
    async def main() -> None:
        answer, sent = made()
        await answer.respond(status, [], b"dropped")
        assert sent[0].endswith(b"\r\n\r\n")
        assert b"content-length" not in sent[0]
        answer, sent = made()
        await answer.start(status, [])
        await answer.write(b"dropped")
        await answer.end()
        assert b"".join(sent).endswith(b"\r\n\r\n")
        assert b"transfer-encoding" not in sent[0]

    trio.run(main)


def test_calls_out_of_order_are_errors_of_the_caller() -> None:
    async def main() -> None:
        answer, _ = made()
        with pytest.raises(RuntimeError):
            await answer.write(b"x")
        with pytest.raises(RuntimeError):
            await answer.end()
        await answer.respond(200, [], b"")
        with pytest.raises(RuntimeError):
            await answer.start(200, [])
        with pytest.raises(RuntimeError):
            await answer.write(b"x")

    trio.run(main)


def test_the_date_is_one_that_others_read() -> None:
    text = str(DateField())
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", text)
    assert email.utils.parsedate_to_datetime(text)
