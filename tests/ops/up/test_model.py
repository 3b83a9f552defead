"""Which model is served, and what its name becomes."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgw.config.refusal import Refused
from llmgw.ops.up.layout import Layout
from llmgw.ops.up.model import choose_model, memory_for, model_name, packaged_path, require_model, starter


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("/models/Qwen2.5-0.5B-Instruct-Q4_K_M.gguf", "Qwen2.5-0.5B-Instruct-Q4_K_M"),
        ("https://host/a/b.gguf#sha256=00", "b"),
        ("hf:org/repo/file.gguf@main", "file"),
        ("https://host/set/", "set"),
        ("/tmp/ü ü.gguf", "model"),
    ],
)
def test_a_name_is_made_of_the_sources_last_part(source: str, name: str) -> None:
    assert model_name(source) == name


def test_a_file_is_served_where_it_lies(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        if str(parent).startswith("/tmp/pytest"):
            parent.chmod(0o755)
    file = tmp_path / "tiny.gguf"
    file.write_bytes(b"GGUF" + bytes(1000))
    choice = choose_model(str(file), Layout(tmp_path), None, print)
    assert (choice.name, choice.source) == ("tiny", str(file))
    assert choice.memory_gb == memory_for(1004)


def test_a_file_that_does_not_exist_is_refused_with_the_forms_there_are(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="pypi:NAME==VERSION"):
        choose_model(str(tmp_path / "absent.gguf"), Layout(tmp_path), None, print)


class Hub(http.server.BaseHTTPRequestHandler):
    """Answers as a model hub does: a redirect to storage, with the digest in a header of its own."""

    digest = "ab" * 32

    def do_HEAD(self) -> None:
        self.send_response(302 if self.path == "/good" else 404)
        self.send_header("Location", "http://127.0.0.1:1/storage")
        if self.path != "/bare":
            self.send_header("X-Linked-Etag", f'"{self.digest}"')
            self.send_header("X-Linked-Size", str(2**29))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_starter_is_taken_with_the_digest_its_hub_names(hub: str) -> None:
    choice = starter(print, f"{hub}/good")
    assert choice is not None
    assert choice.source == f"{hub}/good#sha256={Hub.digest}"
    assert choice.memory_gb == memory_for(2**29)


@pytest.mark.parametrize("path", ["/missing", "/bare"])
def test_a_hub_that_does_not_name_a_digest_is_passed_over(hub: str, path: str) -> None:
    assert starter(print, f"{hub}{path}") is None


def test_a_hub_that_cannot_be_reached_is_passed_over() -> None:
    assert starter(print, "http://127.0.0.1:1/x") is None


def test_a_fetched_packaged_model_is_served_again_without_asking_the_hub(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "data")
    layout.make()
    packaged_path(layout).write_bytes(b"GGUF" + bytes(100))
    said: list[str] = []
    choice = choose_model(None, layout, None, said.append)
    assert choice.source == str(packaged_path(layout))
    assert choice.continues_text
    assert said == []


def test_what_cannot_be_a_model_is_refused_before_anything_is_fetched() -> None:
    for given in ("/absent.gguf", "pypi:name", "pypi:name>=1"):
        with pytest.raises(Refused):
            require_model(given)
    for given in (None, "https://host/a.gguf", "hf:org/repo/a.gguf", "pypi:name==1", "/"):
        require_model(given)
