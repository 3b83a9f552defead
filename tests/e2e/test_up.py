"""`llmgw up` as a newcomer meets it: one command, a real engine, words arriving, nothing left behind."""

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.e2e.rig import (
    READY_LINE,
    TINY_ANSWER,
    Program,
    Up,
    engines_of,
    environment,
    get,
    is_running,
    processes_of,
    until,
)


def test_one_command_ends_in_a_streamed_answer_and_ctrl_c_leaves_nothing_running(
    folder: Path, engine: Path, tiny: Path
) -> None:
    up = Up(folder / "llmgw", engine, str(tiny)).start().ready()
    try:
        assert TINY_ANSWER in up.program.text
        assert f"URL  {up.url}" in up.program.text
        assert f"key  {up.key}" in up.program.text
        assert "curl -N" in up.program.text and "openai.OpenAI(" in up.program.text
        assert up.ctl_json("models")[0]["ready"] == 1
        (pid,) = engines_of(folder / "llmgw" / "agent")
        if os.geteuid() == 0:
            assert Path(f"/proc/{pid}").stat().st_uid != 0
    finally:
        assert up.end() == 0
    assert "nothing is left running" in up.program.text
    assert processes_of(folder) == [] and not is_running(pid)
    assert not (folder / "llmgw" / "up.json").exists()


def test_after_a_kill_the_next_up_takes_the_same_engine_over(folder: Path, engine: Path, tiny: Path) -> None:
    first = Up(folder / "llmgw", engine, str(tiny)).start().ready()
    (pid,) = engines_of(folder / "llmgw" / "agent")
    key = first.key
    first.program.send(signal.SIGKILL)
    first.program.process.wait(10)
    until("server and agent leave with their parent", lambda: processes_of(folder / "llmgw") == [])
    assert engines_of(folder / "llmgw" / "agent") == [pid]
    second = Up(folder / "llmgw", engine, str(tiny)).start().ready()
    try:
        assert engines_of(folder / "llmgw" / "agent") == [pid]
        assert second.key == key
    finally:
        assert second.end() == 0
    assert processes_of(folder) == [] and not is_running(pid)


def test_a_second_up_on_the_same_folder_is_refused_and_disturbs_nothing(up: Up, engine: Path, tiny: Path) -> None:
    engines = engines_of(up.data / "agent")
    assert engines
    second = Up(up.data, engine, str(tiny)).start()
    assert second.program.process.wait(60) == 1
    second.program._reader.join(10)
    assert "already runs on" in second.program.text
    assert engines_of(up.data / "agent") == engines


def test_a_busy_client_port_is_refused_before_anything_starts(folder: Path, engine: Path, tiny: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        up = Up(folder / "llmgw", engine, str(tiny), port=held.getsockname()[1]).start()
        assert up.program.process.wait(60) == 1
    up.program._reader.join(10)
    assert f"port {up.port} is in use" in up.program.text
    assert processes_of(folder) == []


def test_a_folder_where_a_file_belongs_ends_in_one_sentence(folder: Path, engine: Path, tiny: Path) -> None:
    """Whatever the file system refused, a full disk too, was shown as a traceback."""
    (folder / "llmgw" / "server.yaml").mkdir(parents=True)
    up = Up(folder / "llmgw", engine, str(tiny)).start()
    assert up.program.process.wait(60) == 1
    up.program._reader.join(10)
    assert up.program.lines[-1].startswith(f"llmgw up: {folder}/llmgw/server.yaml")
    assert "Traceback" not in up.program.text
    assert processes_of(folder) == []


def test_a_damaged_file_of_the_key_is_replaced(folder: Path, engine: Path, tiny: Path) -> None:
    """Bytes that are no text ended up with a traceback, when everything else was ready."""
    secrets = folder / "llmgw" / "secrets"
    secrets.mkdir(parents=True, mode=0o700)
    (secrets / "api-key").write_bytes(b"\0garbage\xff")
    up = Up(folder / "llmgw", engine, str(tiny)).start()
    try:
        up.ready()
        assert get(f"{up.url}/models", up.key)[0] == 200
    finally:
        up.end()


@pytest.mark.parametrize("damage", ["truncated", "not one"])
def test_a_broken_model_file_ends_in_one_sentence_and_nothing_running(
    folder: Path, engine: Path, tiny: Path, damage: str
) -> None:
    whole = tiny.read_bytes()
    broken = folder / "broken.gguf"
    broken.write_bytes(whole[: len(whole) // 3] if damage == "truncated" else b"<html>" * 1000)
    up = Up(folder / "llmgw", engine, str(broken)).start()
    assert up.program.process.wait(120) == 1
    up.program._reader.join(10)
    last = up.program.lines[-1]
    assert last.startswith("llmgw up: broken does not start:"), up.program.text
    assert str(broken) in last
    assert processes_of(folder) == []


def test_an_option_that_does_not_exist_is_a_usage_error(folder: Path) -> None:
    program = Program(["up", "--modle", "x"], environment()).start()
    assert program.process.wait(60) == 2


def test_ctrl_c_while_the_model_still_loads_stops_everything(folder: Path, tiny: Path) -> None:
    slow = folder / "llama-server"
    slow.write_text(
        "#!/usr/bin/env python3\nimport http.server, sys, threading\n"
        "if '--version' in sys.argv: print('version: 1 (slow)'); sys.exit()\n"
        "port = int(sys.argv[sys.argv.index('--port') + 1])\n"
        "trial = 'llmgw-trial' in ' '.join(sys.argv)\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n        self.send_response(200 if trial else 503); self.end_headers()\n"
        "http.server.HTTPServer(('127.0.0.1', port), H).serve_forever()\n"
    )
    slow.chmod(0o755)
    up = Up(folder / "llmgw", slow, str(tiny)).start()
    up.program.wait_for("loading the model")
    assert up.end() == 0
    assert READY_LINE not in up.program.text
    assert processes_of(folder) == []


def test_an_agent_that_dies_ends_up_in_words_and_its_engine_is_taken_over(
    folder: Path, engine: Path, tiny: Path
) -> None:
    first = Up(folder / "llmgw", engine, str(tiny)).start().ready()
    try:
        (pid,) = engines_of(folder / "llmgw" / "agent")
        (agent,) = [p for p in processes_of(folder / "llmgw") if b"\0agent\0" in Path(f"/proc/{p}/cmdline").read_bytes()]
        os.kill(agent, signal.SIGKILL)
        assert first.program.process.wait(60) == 1
        first.program._reader.join(10)
        assert "the agent ended with status -9" in first.program.text
        assert "the next llmgw up takes them over" in first.program.text
        assert is_running(pid)
        second = Up(folder / "llmgw", engine, str(tiny)).start().ready()
        assert engines_of(folder / "llmgw" / "agent") == [pid]
    finally:
        first.end()
    assert second.end() == 0
    assert processes_of(folder) == [] and not is_running(pid)
