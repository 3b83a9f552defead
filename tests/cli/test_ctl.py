from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from llmgw.ports import UsageRow
from llmgw.testing.memory_admin import _replica
from llmgw.wire.admin import FetchView, GPUView, ReplicaView
from tests.admin.admin_server import TOKEN, RunningAdmin, running_admin
from tests.cli.ctl_program import llmgw


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningAdmin]:
    with running_admin() as running:
        yield running


@pytest.fixture
def admin() -> Iterator[RunningAdmin]:
    with running_admin() as running:
        yield running


def env_of(admin: RunningAdmin) -> dict[str, str]:
    return {"LLMGW_ADMIN_URL": f"http://127.0.0.1:{admin.port}", "LLMGW_ADMIN_TOKEN": TOKEN}


def ctl(admin: RunningAdmin, *arguments: str, status: int = 0, stdin: str | None = None) -> str:
    done = llmgw("ctl", *arguments, env=env_of(admin), stdin=stdin)
    assert done.returncode == status, done.stderr + done.stdout
    if status == 1:
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
    return done.stderr if status else done.stdout


READING = [
    ["status"], ["nodes"], ["nodes", "n1"], ["models"], ["model", "show", "chat"], ["replicas"], ["logs", "n1"],
    ["explain-placement", "chat"], ["version"], ["audit"],
]  # fmt: skip


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_every_reading_command_prints_text_and_json(shared: RunningAdmin, arguments: list[str]):
    if arguments != ["audit"]:
        assert ctl(shared, *arguments).strip()
    json.loads(ctl(shared, *arguments, "--json"))


def test_status_shows_the_counts(shared: RunningAdmin):
    lines = [" ".join(line.split()) for line in ctl(shared, "status").splitlines()]
    assert lines == ["release 0.1.0", "nodes 1 (1 ready)", "replicas 1 (1 ready)", "models 1 (1 satisfied)"]


def test_explain_placement_gives_a_reason_per_node(shared: RunningAdmin):
    out = ctl(shared, "explain-placement", "chat")
    assert "chat: 1 of 2 replicas" in out
    assert "n1: memory: 8.0 of 16.0 GiB free, needs 20.0" in out


def test_a_replicas_log_is_that_of_its_shard(shared: RunningAdmin):
    assert ctl(shared, "logs", "chat-0", "--lines", "2") == "line 299\nline 300\n"
    assert json.loads(ctl(shared, "logs", "chat-0", "--json"))["shard"] == "chat-0/0"
    assert "no node and no replica zzz" in ctl(shared, "logs", "zzz", status=1)


@pytest.mark.covers("L-90")
def test_a_node_is_cordoned_and_uncordoned(admin: RunningAdmin):
    assert ctl(admin, "cordon", "n1") == "n1 is cordoned\n"
    assert ctl(admin, "uncordon", "n1") == "n1 is ready\n"
    assert [event.action for event in admin.audit.events] == ["node.cordon", "node.uncordon"]


def test_the_actor_is_who_ran_it(admin: RunningAdmin):
    llmgw("ctl", "cordon", "n1", env={**env_of(admin), "SUDO_USER": "jo hn@x"})
    assert admin.audit.events[0].actor == "jo-hn@x"


def test_a_model_is_added_from_yaml_scaled_retried_and_removed(admin: RunningAdmin, tmp_path: Path):
    file = tmp_path / "m.yaml"
    file.write_text("name: new\nsource: /m.gguf\nprofiles:\n  - {name: cpu, engine: llamacpp}\n")
    assert "new is added" in ctl(admin, "model", "add", str(file))
    assert "there is a model new already" in ctl(admin, "model", "add", str(file), status=1)
    assert "idle timeout 30m" in ctl(admin, "scale", "new", "--min", "0", "--max", "2", "--idle-timeout", "30m")
    ctl(admin, "model", "retry", "new")
    assert admin.fleet.retried == ["new"]
    assert "give --yes" in ctl(admin, "model", "remove", "new", status=1)
    assert json.loads(ctl(admin, "model", "remove", "new", "--yes", "--json")) == {"removed": "new"}
    assert "new" not in admin.fleet.definitions


def test_a_node_is_shown_with_its_cards_their_class_and_what_is_on_them(admin: RunningAdmin):
    admin.fleet.gpus = [
        GPUView(node="n1", index=0, name="NVIDIA L4", gpu_class="l4-22g", uuid="", memory_total_mb=23034, replica="chat-0"),
        GPUView(node="n1", index=1, name="", gpu_class="l4-22g", uuid="", memory_total_mb=23034),
        GPUView(node="n1", index=2, name="", gpu_class="l4-22g", uuid="", memory_total_mb=23034, healthy=False, problem="ECC"),
    ]
    shown = [line.removeprefix("gpu").strip() for line in ctl(admin, "nodes", "n1").splitlines() if line.startswith("gpu")]
    assert shown == [
        "0 class l4-22g, NVIDIA L4, 23034 MiB, chat-0", "1 class l4-22g, ?, 23034 MiB, free",
        "2 class l4-22g, ?, 23034 MiB, not used: ECC",
    ]  # fmt: skip


def test_waiting_for_a_model_that_wants_no_replica_ends_at_once_and_calls_nothing_ready(
    admin: RunningAdmin, tmp_path: Path
):
    file = tmp_path / "m.yaml"
    file.write_text("name: idle\nscaling: {min: 0, max: 1}\nprofiles:\n  - {name: cpu, engine: llamacpp}\n")
    assert "idle is added and wants no replica now" in ctl(admin, "model", "add", str(file), "--wait")


@pytest.mark.parametrize("text", ["", "- a\n", "name: [unclosed", "\x00"])
def test_a_file_that_is_no_definition_is_refused(shared: RunningAdmin, tmp_path: Path, text: str):
    file = tmp_path / "m.yaml"
    file.write_text(text)
    assert str(file) in ctl(shared, "model", "add", str(file), status=1)


def test_a_request_is_found_by_its_id(admin: RunningAdmin):
    admin.records.rows.append(
        UsageRow(
            id="u1", request_id="req-1", at_unix=1.0, endpoint="/v1/chat/completions", stream=True, key_id="k",
            kind="project", project_id="p", team_id="t", org_id="o", user_id="", model="chat", status=200,
            completion_tokens=7,
        )
    )  # fmt: skip
    assert json.loads(ctl(admin, "request", "req-1", "--json"))[0]["completion_tokens"] == 7
    assert "completion_tokens  7" in ctl(admin, "request", "req-1")
    assert "no request req-2" in ctl(admin, "request", "req-2", status=1)


def test_watching_follows_a_download_until_the_replica_is_ready(admin: RunningAdmin):
    seen = 0

    def views(model: str | None) -> list[ReplicaView]:
        nonlocal seen
        seen += 1
        if seen < 3:
            fetch = FetchView(source="http://x/m.gguf", done=seen * 1024, total=4096)
            return [ReplicaView(id="r", model="chat", profile="cpu", engine="llamacpp", state="fetching", fetch=fetch)]
        return [_replica("r", "chat")]

    admin.fleet.replica_views = views  # type: ignore[method-assign]
    done = llmgw("ctl", "replicas", "--watch", env=env_of(admin))
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "r: fetching 25 % of 4.0 KiB", "r: fetching 50 % of 4.0 KiB", "r: ready"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [["statu"], ["scale", "chat"], ["scale", "chat", "--min", "-1"], ["audit", "--since", "yesterday"],
     ["audit", "--source", "x"], ["audit", "--result", "x"], ["nodes", "--state", "lost"], ["logs"]],
    ids=" ".join,
)  # fmt: skip
def test_a_wrong_command_line_is_2(shared: RunningAdmin, arguments: list[str]):
    ctl(shared, *arguments, status=2)


def test_an_unknown_command_suggests_the_nearest(shared: RunningAdmin):
    assert "did you mean status?" in ctl(shared, "statu", status=2)


@pytest.mark.covers("C-50")
def test_a_wrong_token_and_no_token_are_one_sentence_each(shared: RunningAdmin):
    url = f"http://127.0.0.1:{shared.port}"
    wrong = llmgw("ctl", "status", env={"LLMGW_ADMIN_URL": url, "LLMGW_ADMIN_TOKEN": "x" * 64})
    assert (wrong.returncode, "does not take this admin token" in wrong.stderr) == (1, True)
    if not Path("/var/lib/llmgw/admin-token").exists():
        none = llmgw("ctl", "status", env={"LLMGW_ADMIN_URL": url})
        assert (none.returncode, "there is no admin token" in none.stderr) == (1, True)


@pytest.mark.covers("C-50")
def test_a_refused_connection_is_one_sentence():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = llmgw("ctl", "--server", f"127.0.0.1:{port}", "status", env={"LLMGW_ADMIN_TOKEN": TOKEN})
    assert done.returncode == 1
    assert done.stderr.strip() == (
        f"nothing answers at http://127.0.0.1:{port}; start the server, or name another with --server"
    )


@pytest.mark.parametrize("address", ["http://[::1", "http://127.0.0.1:99999", "ftp://127.0.0.1", "http://"])
def test_an_address_that_is_none_is_one_sentence(address: str):
    done = llmgw("ctl", "--server", address, "status", env={"LLMGW_ADMIN_TOKEN": TOKEN})
    assert (done.returncode, done.stderr.strip()) == (
        1, f"{address} is no address of a server; write it like http://127.0.0.1:9090"
    )  # fmt: skip


def test_an_id_with_a_slash_is_not_taken_for_a_path(shared: RunningAdmin):
    """The server read another path than was meant, and ctl said that the server was old."""
    done = llmgw("ctl", "request", "../x", env=env_of(shared))
    assert (done.returncode, done.stderr.strip()) == (1, "'../x' is no id: none holds a slash")


@pytest.mark.covers("C-49", "C-50")
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>", "a web page"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 22\r\n\r\n<!DOCTYPE html><html/>", "a web page"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "does not answer with JSON"),
        (b"SSH-2.0-OpenSSH_9\r\n", "cannot be asked"),
        (b"HTTP/1.1 404 X\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
         b'{"error":"there is no /api/v1/summary; /api/v1/openapi.json lists what there is"}', "older than this ctl"),
        (b"", "cannot be asked"),
    ],
)  # fmt: skip
def test_what_is_not_the_admin_api_is_named(answer: bytes, said: str):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        done = llmgw("ctl", "--server", f"http://127.0.0.1:{port}", "status", env={"LLMGW_ADMIN_TOKEN": TOKEN})
        thread.join(10)
    assert done.returncode == 1
    assert said in done.stderr
    assert f"127.0.0.1:{port}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_server_of_llmgw_up_is_found_through_its_folder(shared: RunningAdmin, tmp_path: Path):
    folder = tmp_path / "llmgw"
    folder.mkdir()
    (folder / "token").write_text(TOKEN + "\n")
    up = {"admin": f"http://127.0.0.1:{shared.port}", "token_file": str(folder / "token")}
    (folder / "up.json").write_text(json.dumps(up))
    assert llmgw("ctl", "version", env={"XDG_DATA_HOME": str(tmp_path)}).returncode == 0
    assert llmgw("ctl", "--data", str(folder), "version").returncode == 0
    assert llmgw("ctl", "version", "--data", str(folder)).returncode == 0
    assert llmgw("ctl", "version", "--server", up["admin"], env={"XDG_DATA_HOME": str(tmp_path)}).returncode == 0
    missing = llmgw("ctl", "version", "--data", str(tmp_path))
    assert (missing.returncode, "up.json is not there" in missing.stderr) == (1, True)
