"""The first answer is printed as it comes, and a stream that breaks off is never taken for a whole one."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from llmgw.config.refusal import Refused
from llmgw.ops.up.answer import stream_first_answer

CHAT = b'data: {"choices":[{"delta":{"role":"assistant"}}]}\n\ndata: {"choices":[{"delta":{"content":"Hel"}}]}\n\n'
CHAT += b': \n\ndata: {"choices":[{"delta":{"content":"lo \xe4\xbd\xa0"}}]}\n\n'
ANSWERS = {
    "whole": (200, CHAT + b"data: [DONE]\n\n"),
    "cut": (200, CHAT),
    "broken": (200, CHAT + b'data: {"error":{"message":"engine died"}}\n\ndata: [DONE]\n\n'),
    "refused": (503, b'{"error":{"message":"it is loading"}}'),
    "page": (404, b"<html>"),
    "text": (200, b'data: {"choices":[{"text":" sets"}]}\n\ndata: [DONE]\n\n'),
}


class Gateway(http.server.BaseHTTPRequestHandler):
    """Answers by the model's name."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        status, content = next(a for name, a in ANSWERS.items() if f'"{name}"' in body)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_pieces_are_written_as_they_come(port: int) -> None:
    written: list[str] = []
    assert stream_first_answer(port, "k", "whole", False, written.append) == 7
    assert written == ["Hel", "lo 你"]


def test_a_base_model_is_asked_to_continue_a_text(port: int) -> None:
    written: list[str] = []
    stream_first_answer(port, "k", "text", True, written.append)
    assert written == [" sets"]


@pytest.mark.parametrize(
    ("model", "sentence"),
    [("cut", "without its last event"), ("broken", "engine died"), ("refused", "503: it is loading"), ("page", "<html>")],
)
def test_what_is_not_a_whole_answer_is_refused_in_words(port: int, model: str, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        stream_first_answer(port, "k", model, False, lambda _: None)


def test_nobody_listening_is_refused() -> None:
    with pytest.raises(Refused, match="broke off"):
        stream_first_answer(1, "k", "whole", False, lambda _: None)
