import gzip

import pytest
import trio

from llmgw.net.http_message import ClientFault, Request, Responder
from tests.net.client_listener import FAULTS, Wire, echo, run, serving

GET = b"GET /a?b=1 HTTP/1.1\r\nHost: x\r\n\r\n"


def post(body: bytes, *fields: bytes) -> bytes:
    head = [b"POST / HTTP/1.1", b"Host: x", b"Content-Length: %d" % len(body), *fields]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


async def stream(request: Request, responder: Responder) -> None:
    await responder.start(200, [("content-type", "text/event-stream")])
    for word in ("one", "two"):
        await responder.write(word.encode())
    await responder.end()


def test_requests_follow_one_another_on_a_connection() -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            for _ in range(3):
                await wire.send(GET)
                status, head, body = await wire.answer()
                assert (status, body) == (200, b"GET /a b=1 ")
                assert "connection" not in head
                assert "\r\ndate: " in head

    run(main)


def test_pipelined_requests_are_answered_in_order() -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            await wire.send(b"".join(post(b"%d" % number) for number in range(200)))
            for number in range(200):
                assert (await wire.answer())[2] == b"POST /  %d" % number

    run(main)


def test_a_request_cut_into_bytes_is_read() -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            for byte in post("漢字👩‍👩‍👧".encode()):
                await wire.send(bytes([byte]))
            assert (await wire.answer())[2] == "POST /  漢字👩‍👩‍👧".encode()

    run(main)


def test_a_chunked_body_is_read_and_trailers_are_dropped() -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            await wire.send(head + b"3\r\nabc\r\n2;e=1\r\nde\r\n0\r\nX: y\r\n\r\n" + GET)
            assert (await wire.answer())[2] == b"POST /  abcde"
            assert (await wire.answer())[2] == b"GET /a b=1 "

    run(main)


def test_a_streamed_answer_is_chunked_and_ends() -> None:
    async def main() -> None:
        async with serving(stream) as site:
            wire = await site.connect()
            await wire.send(GET)
            answer = await wire.until(b"0\r\n\r\n")
            assert answer.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
            assert b"transfer-encoding: chunked\r\n" in answer
            await wire.send(GET)
            assert (await wire.until(b"0\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")

    run(main)


def test_an_old_client_gets_a_stream_unchunked_and_its_end_is_the_connections() -> None:
    async def main() -> None:
        async with serving(stream) as site:
            wire = await site.connect()
            await wire.send(b"GET / HTTP/1.0\r\n\r\n")
            answer = await wire.rest()
            assert answer.endswith(b"\r\n\r\nonetwo")
            assert b"connection: close\r\n" in answer

    run(main)


def test_an_old_client_that_asks_keeps_its_connection() -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            for _ in range(2):
                await wire.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
                assert "connection: keep-alive" in (await wire.answer())[1]

    run(main)


def test_close_is_obeyed_and_said() -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            await wire.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert "connection: close" in (await wire.answer())[1]
            assert await wire.rest() == b""

    run(main)


@pytest.mark.parametrize("handler", [echo, stream])
def test_a_head_request_gets_no_body(handler: object) -> None:
    async def main() -> None:
        async with serving(handler) as site:  # type: ignore[arg-type]
            wire = await site.connect()
            await wire.send(GET.replace(b"GET", b"HEAD") * 2)
            for _ in range(2):
                assert (await wire.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
            assert wire.unread == b""

    run(main)


def test_a_client_that_waits_is_told_to_go_on() -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            whole = post(b"abc", b"Expect: 100-continue")
            await wire.send(whole[:-3])
            assert await wire.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            await wire.send(whole[-3:])
            assert (await wire.answer())[2] == b"POST /  abc"

    run(main)


def test_a_client_that_waits_is_refused_without_sending_its_body() -> None:
    async def small(request: Request, responder: Responder) -> None:
        await request.read_body(10)

    async def main() -> None:
        async with serving(small) as site:
            wire = await site.connect()
            await wire.send(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n"
            )
            assert (await wire.answer())[0] == 413

    run(main)


async def refuse_large(request: Request, responder: Responder) -> None:
    await request.read_body(1000)
    await responder.respond(200, [], b"")


@pytest.mark.covers("S-10")
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_too_large_is_refused_while_it_is_sent_and_the_client_reads_why(is_chunked: bool) -> None:
    async def main() -> None:
        async with serving(refuse_large) as site:
            wire = await site.connect()
            size = 3_000_000
            framing = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: %d" % size
            prefix = b"%x\r\n" % size if is_chunked else b""
            await wire.send(b"POST / HTTP/1.1\r\nHost: x\r\n" + framing + b"\r\n\r\n" + prefix)
            await wire.send(b"x" * size)  # all of it, before anything is read
            status, head, body = await wire.answer()
            assert (status, "connection: close" in head) == (413, True)
            assert b"1000" in body
            assert await wire.rest() == b""

    run(main)


def test_a_client_that_sends_on_after_a_refusal_is_cut_in_the_end() -> None:
    async def main() -> None:
        async with serving(refuse_large) as site:
            wire = await site.connect()
            await wire.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000000\r\n\r\n")
            assert (await wire.answer())[0] == 413
            began = trio.current_time()
            with pytest.raises(trio.BrokenResourceError):
                while True:
                    await wire.send(b"x")
                    await trio.sleep(1)
            assert trio.current_time() - began < 10

    run(main)


def test_gzip_bodies_are_read_under_the_same_bound() -> None:
    async def main() -> None:
        async with serving(refuse_large) as site:
            for plain, status in ((b"a" * 1000, 200), (b"a" * 1001, 413), (b"a" * 50_000_000, 413)):
                wire = await site.connect()
                await wire.send(post(gzip.compress(plain)[:900_000], b"Content-Encoding: gzip"))
                assert (await wire.answer())[0] == status
            members = gzip.compress(b"a" * 500) * 2
            for body, status in ((members, 200), (members[:-4], 400), (b"not gzip", 400), (b"", 200)):
                wire = await site.connect()
                await wire.send(post(body, b"Content-Encoding: gzip"))
                assert (await wire.answer())[0] == status
            wire = await site.connect()
            await wire.send(post(b"x", b"Content-Encoding: br"))
            assert (await wire.answer())[0] == 415

    run(main, jumps=False)


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        + GET,
        b"GET / HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n" + GET,
        b"GET / HTTP/1.1\nHost: x\n\n" + GET,
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + GET,
    ],
)
def test_what_cannot_be_read_is_answered_400_once_and_closed(data: bytes) -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            await wire.send(data)
            status, head, _ = await wire.answer()
            assert (status, "connection: close" in head) == (400, True)
            assert await wire.rest() == b""

    run(main)


def test_requests_before_garbage_are_answered() -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            await wire.send(GET + b"nonsense\r\n\r\n")
            assert (await wire.answer())[0] == 200
            assert (await wire.answer())[0] == 400

    run(main)


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 66_000,
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"x: y\r\n" * 100 + b"\r\n",
    ],
)
def test_a_head_beyond_its_bounds_is_answered_431(head: bytes) -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            await wire.send(head)
            assert (await wire.answer())[0] == 431
            assert await wire.rest() == b""

    run(main)


async def reach(wire: Wire, began: float) -> tuple[bytes, float]:
    return await wire.rest(), trio.current_time() - began


def test_a_head_sent_too_slowly_is_cut() -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            began = trio.current_time()
            async with trio.open_nursery() as nursery:

                async def trickle() -> None:
                    for byte in GET + b"x" * 100:
                        try:
                            await wire.send(bytes([byte]))
                        except trio.BrokenResourceError:
                            return
                        await trio.sleep(0.5)

                nursery.start_soon(trickle)
                assert (await wire.answer())[0] == 408
                assert 9.9 < trio.current_time() - began < 11

    run(main)


@pytest.mark.parametrize("first", [b"", GET])
def test_an_idle_connection_is_closed_after_its_time(first: bytes) -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            if first:
                await wire.send(first)
                await wire.answer()
            rest, took_s = await reach(wire, trio.current_time())
            assert rest == b""
            assert 119 < took_s < 121

    run(main)


def test_a_body_that_stalls_is_answered_408() -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            began = trio.current_time()
            await wire.send(post(b"abc")[:-1])
            status, _, body = await wire.answer()
            assert (status, b"no byte of the body came for 30 s" in body) == (408, True)
            assert 29 < trio.current_time() - began < 31

    run(main)


def test_a_body_that_never_ends_is_answered_408_after_five_minutes() -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            began = trio.current_time()
            await wire.send(post(b"x" * 1000)[:-1000])
            async with trio.open_nursery() as nursery:

                async def trickle() -> None:
                    while True:
                        await trio.sleep(20)
                        await wire.send(b"x")

                nursery.start_soon(trickle)
                status, _, body = await wire.answer()
                assert (status, b"not whole after 300 s" in body) == (408, True)
                assert 299 < trio.current_time() - began < 301
                nursery.cancel_scope.cancel()

    run(main)


def test_a_body_of_nothing_but_framing_is_no_progress() -> None:
    async def main() -> None:
        async with serving() as site:
            wire = await site.connect()
            await wire.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;")
            async with trio.open_nursery() as nursery:

                async def trickle() -> None:
                    while True:
                        await trio.sleep(5)
                        await wire.send(b"e")

                nursery.start_soon(trickle)
                assert (await wire.answer())[0] == 408
                nursery.cancel_scope.cancel()

    run(main)


def test_a_body_nobody_read_does_not_become_the_next_request() -> None:
    async def deaf(request: Request, responder: Responder) -> None:
        await responder.respond(401, [], b"no")

    async def main() -> None:
        async with serving(deaf) as site:
            wire = await site.connect()
            await wire.send(post(GET) + post(GET))
            assert [(await wire.answer())[0] for _ in range(2)] == [401, 401]
            await wire.send(post(b"x" * 100)[:-50])
            status, head, _ = await wire.answer()
            assert (status, "connection: close" in head) == (401, True)

    run(main)


def test_a_crash_is_answered_500_and_told_with_its_cause() -> None:
    async def crash(request: Request, responder: Responder) -> None:
        raise LookupError("a bug")

    async def main() -> None:
        async with serving(crash) as site:
            wire = await site.connect()
            await wire.send(GET)
            status, _, body = await wire.answer()
            assert status == 500
            assert b"a bug" not in body
            assert isinstance(FAULTS[0].__cause__, LookupError)

    run(main)


def test_a_crash_before_the_first_byte_of_a_stream_is_still_answered() -> None:
    async def crash(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        raise ClientFault(400, "not so", must_close=False)

    async def main() -> None:
        async with serving(crash) as site:
            wire = await site.connect()
            await wire.send(GET + GET)
            assert [(await wire.answer())[0] for _ in range(2)] == [400, 400]

    run(main)


def test_a_crash_in_a_stream_cuts_it_so_that_nobody_takes_it_for_whole() -> None:
    async def crash(request: Request, responder: Responder) -> None:
        await responder.start(200, [])
        await responder.write(b"one")
        raise LookupError

    async def main() -> None:
        async with serving(crash) as site:
            wire = await site.connect()
            await wire.send(GET)
            assert (await wire.rest()).endswith(b"3\r\none\r\n")

    run(main)


def test_a_handler_that_answers_nothing_is_a_500() -> None:
    async def silent(request: Request, responder: Responder) -> None:
        return

    async def main() -> None:
        async with serving(silent) as site:
            wire = await site.connect()
            await wire.send(GET)
            assert (await wire.answer())[0] == 500

    run(main)


def test_a_header_with_a_line_break_is_never_sent() -> None:
    async def split(request: Request, responder: Responder) -> None:
        await responder.respond(200, [("x", "a\r\nset-cookie: b")], b"")

    async def main() -> None:
        async with serving(split) as site:
            wire = await site.connect()
            await wire.send(GET)
            status, head, _ = await wire.answer()
            assert (status, "set-cookie" in head) == (500, False)

    run(main)
