"""An engine is used only after it was seen loading a model here."""

import json
from pathlib import Path

import pytest

from llmgw.config.refusal import Refused
from llmgw.ops.up.engine import choose_engine
from llmgw.ops.up.layout import Layout


def made(tmp_path: Path, name: str, script: str) -> Path:
    path = tmp_path / name
    path.write_text(script)
    path.chmod(0o755)
    return path


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "data")
    layout.make()
    return layout


def test_a_program_that_dies_loading_a_model_is_refused_with_its_last_line(
    layout: Layout, tmp_path: Path
) -> None:
    bad = made(
        tmp_path,
        "llama-server",
        '#!/bin/sh\n[ "$1" = --version ] && exit 0\necho instruction not known >&2\nkill -ILL $$\n',
    )
    with pytest.raises(Refused, match="killed by signal 4.*instruction not known"):
        choose_engine(str(bad), layout, None, print)
    assert not (layout.engines / "tried.json").exists()


def test_a_library_that_a_minimal_debian_lacks_is_named_with_its_package(layout: Layout, tmp_path: Path) -> None:
    words = "error while loading shared libraries: libgomp.so.1: cannot open shared object file"
    bad = made(tmp_path, "llama-server", f"#!/bin/sh\necho '{words}' >&2\nexit 127\n")
    with pytest.raises(Refused, match="exited with status 127.*install the Debian package libgomp1"):
        choose_engine(str(bad), layout, None, print)


def test_what_is_not_executable_is_refused(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="is not an executable file"):
        choose_engine(str(tmp_path / "file"), layout, None, print)
    with pytest.raises(Refused, match="is not an executable file"):
        choose_engine(str(tmp_path / "absent"), layout, None, print)


def test_a_program_seen_loading_a_model_is_not_tried_again_until_it_changes(
    layout: Layout, tmp_path: Path
) -> None:
    program = made(
        tmp_path,
        "llama-server",
        "#!/usr/bin/env python3\nimport http.server, sys\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n        self.send_response(200); self.end_headers()\n"
        "open(sys.argv[2], 'rb').read(4) == b'GGUF' or sys.exit(3)\n"
        f"open({str(tmp_path / 'runs')!r}, 'a').write('x')\n"
        "http.server.HTTPServer(('127.0.0.1', int(sys.argv[6])), H).serve_forever()\n",
    )
    assert choose_engine(str(program), layout, None, print) == program
    assert choose_engine(str(program), layout, None, print) == program
    assert (tmp_path / "runs").read_text() == "x"
    assert json.loads((layout.engines / "tried.json").read_text())["program"] == str(program)
    program.write_text(program.read_text() + "\n")
    choose_engine(str(program), layout, None, print)
    assert (tmp_path / "runs").read_text() == "xx"


def test_a_program_on_path_that_fails_is_said_and_not_used(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path, "llama-server", "#!/bin/sh\nexit 7\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    said: list[str] = []
    with pytest.raises(Refused, match="could not be fetched"):
        choose_engine(None, layout, None, said.append)
    assert any(
        "not using the llama-server on PATH" in line and "exited with status 7" in line for line in said
    )
    assert not list((layout.engines / "llamacpp").glob("b*"))
