"""The one file, copied elsewhere, does everything without the checkout, a network or a time zone database.

On every CPython that is here, `up` and a cluster's simulated engine run from the copy. As root, who alone may arrange
it, the machine is first made as bare as a stranger's: a network namespace with nothing but loopback, and the checkout
and the zone database covered by empty folders in the program's own view of the files. Without root the same things are
run with network and checkout in reach, and the run says so.
"""

import contextlib
import ctypes
import http.client
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster, running, saved_pids
from tests.e2e.rig import (
    TINY_ANSWER,
    Program,
    Up,
    engines_of,
    is_running,
    llmgw,
    open_folder,
    processes_of,
    until,
)
from tests.house import interpreters
from tests.house.tree import ROOT, name, tracked_files

IS_ROOT = os.geteuid() == 0
COVERED = (str(ROOT), "/usr/share/zoneinfo")
NEW_NETWORK = 0x40000000
"""CLONE_NEWNET of unshare(2)."""

as_root = pytest.mark.skipif(not IS_ROOT, reason="only root can arrange it")


@pytest.fixture(scope="module", autouse=True)
def apart(zipapp: Path, engine: Path, tiny: Path) -> Iterator[None]:
    """Take the network away from this module's tests and what they start, once everything is built that they copy."""
    with without_network() as words:
        print(words, file=sys.__stderr__)
        yield


@contextlib.contextmanager
def without_network() -> Iterator[str]:
    """Put this thread in a network of its own, with loopback up; yield what came of it, in words."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(NEW_NETWORK):
            yield f"run with the network in reach: unshare: {os.strerror(ctypes.get_errno())}"
            return
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            yield "run without a network"
        finally:
            assert libc.setns(before, NEW_NETWORK) == 0
    finally:
        os.close(before)


@pytest.fixture(scope="module")
def away(zipapp: Path) -> Iterator[Path]:
    """The copy, in a folder that every account may enter."""
    with open_folder() as folder:
        yield Path(shutil.copy2(zipapp, folder / "llmgw"))


@pytest.fixture(params=interpreters.VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    """Each interpreter that is here."""
    found = interpreters.found().get(request.param)
    if found is None:
        pytest.skip(f"CPython {request.param} is not on this machine: nothing is proven about it here")
    return found


def bare(python: str, away: Path) -> tuple[str, ...]:
    """Return the command that runs the copy on an interpreter, with checkout and zone database covered."""
    own = (python, "-I", str(away))
    if not IS_ROOT:
        return own
    covering = " && ".join(f"mount -t tmpfs none {path}" for path in COVERED if Path(path).is_dir())
    return ("unshare", "--mount", "sh", "-c", f'{covering} && cd / && exec "$@"', "sh", *own)


def variables(away: Path, **more: str) -> dict[str, str]:
    """Return a newcomer's environment; what is unpacked lies beside the copy."""
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(away.parent),
            "SHIV_ROOT": str(away.parent / "unpacked")} | more  # fmt: skip


def ask(port: int, key: str, model: str) -> str:
    """Ask one chat question; return the answer's text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 64})
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with contextlib.closing(connection):
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        document = json.loads(answer.read())
    assert answer.status == 200, document
    return document["choices"][0]["message"]["content"]


def test_up_serves_and_survives_a_kill(python: str, away: Path, engine: Path, tiny: Path, folder: Path) -> None:
    command, env, data = bare(python, away), variables(away), folder / "llmgw"
    assert llmgw("--version", env=env, command=command).stdout.startswith("llmgw ")
    first = Up(data, engine, str(tiny), command=command, env=env).start().ready()
    second: Up | None = None
    try:
        assert TINY_ANSWER in first.program.text
        (pid,) = engines_of(data / "agent")
        assert ask(first.port, first.key, "tiny").strip() in TINY_ANSWER
        status = first.ctl_json("status")
        assert status["nodes"]["ready"] == status["replicas"]["ready"] == 1, status
        made = llmgw("keys", "create", "--name", "more", "--store", str(data / "store" / "llmgw.db"), "--json",
                     env=env, command=command)  # fmt: skip
        key = json.loads(made.stdout)["key"]
        until("the new key is known", lambda: is_accepted(first.port, key))
        first.program.send(signal.SIGKILL)
        first.program.process.wait(10)
        until("server and agent leave with their parent", lambda: processes_of(data) == [])
        second = Up(data, engine, str(tiny), command=command, env=env).start().ready()
        assert engines_of(data / "agent") == [pid]
        assert ask(second.port, key, "tiny")
    finally:
        assert (second or first).end() == 0
    assert processes_of(folder) == [] and not is_running(pid)


def is_accepted(port: int, key: str) -> bool:
    """Return whether the client API knows a key."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
        return connection.getresponse().status == 200


def sim_cluster(folder: Path, command: Sequence[str], env: dict[str, str]) -> Cluster:
    """Return a server and an agent of which nothing but the simulated engine is asked."""
    profile: dict[str, Any] = {"name": "sim", "engine": "sim", "cpu_cores": 1, "min_memory_gb": 0.1}
    model = {"name": "demo", "source": "/", "profiles": [profile], "scaling": {"min": 1, "max": 1}}
    settings = {"engines": {"sim": {"enabled": True}, "disabled": ["llamacpp"]}}
    return Cluster(folder, Path("/"), [model], agent_settings=settings, command=command, env=env)


def test_an_agent_starts_the_simulated_engine_from_the_file(python: str, away: Path, folder: Path) -> None:
    with running(sim_cluster(folder, bare(python, away), variables(away))) as cluster:
        cluster.wait_ready("demo")
        (pid,) = saved_pids(folder)
        started = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        assert started[1:4] == ["-I", str(away), "sim-engine"]
        if IS_ROOT:
            assert Path(f"/proc/{pid}").stat().st_uid == pwd.getpwnam("nobody").pw_uid
        assert f"SHIV_ROOT={away.parent / 'unpacked'}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        assert ask(cluster.client_port, cluster.key, "demo")


@as_root
def test_a_cache_that_engines_cannot_read_is_told_and_no_simulated_engine_is_offered(away: Path, folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    cluster = sim_cluster(folder, plain(away), variables(away, SHIV_ROOT=str(closed)))
    agent = cluster.lone_agent("n1")
    try:
        agent.wait_for("engine cannot be used")
        assert f"the unpacked program in {closed} cannot be read by user 65534" in agent.text
    finally:
        agent.end(signal.SIGTERM)


def plain(away: Path) -> tuple[str, ...]:
    """Return the command as a user types it."""
    return ("/bin/sh", str(away))


@as_root
@pytest.mark.parametrize("umask", ["000", "077"])
def test_what_root_unpacks_is_readable_by_engines_whatever_the_umask(away: Path, folder: Path, umask: str) -> None:
    env = variables(away, SHIV_ROOT=str(folder / "unpacked"))
    masked = ("sh", "-c", f'umask {umask} && exec "$@"', "sh", str(away))
    assert llmgw("--version", env=env, command=masked).stdout
    again = llmgw("--version", env=env, command=(*as_account(65534), str(away)))
    assert again.stdout, again.stderr
    assert any((folder / "unpacked").rglob("*.pyc"))
    assert [path for path in (folder / "unpacked").rglob("*") if path.lstat().st_mode & 0o022] == []


def as_account(number: int) -> tuple[str, ...]:
    """Return the words before a command that another account is to run."""
    return ("setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups")


@as_root
@pytest.mark.parametrize(
    ("account", "home", "unpacked"),
    [
        pytest.param(0, None, "/var/cache/llmgw", id="root without HOME"),
        pytest.param(65534, None, "/tmp/llmgw-65534", id="an account whose home does not exist"),
        pytest.param(54321, None, "/tmp/llmgw-54321", id="an account without an entry"),
        pytest.param(54321, "here", "/tmp/llmgw-54321", id="a home that is no absolute path"),
        pytest.param(54321, "/proc", "/tmp/llmgw-54321", id="a home that cannot be written"),
    ],
)
def test_it_finds_where_to_unpack(away: Path, account: int, home: str | None, unpacked: str) -> None:
    """In a view of the files of its own, where the usual places are there, empty, and nobody's real ones."""
    empty = ("/mnt", "/var/cache", "/srv")
    mounts = " && ".join(f"mount -t tmpfs -o mode=1777 none {path}" for path in empty)
    arranged = f'{mounts} && cp {away} /mnt/llmgw && mount -t tmpfs -o mode=1777 none /tmp && cd /srv && "$@"'
    seen = f"ls -A /srv && ls -d {unpacked}/llmgw_*/site-packages/llmgw"
    env = {"PATH": variables(away)["PATH"]} | ({} if home is None else {"HOME": home})
    command = ("unshare", "--mount", "sh", "-c", f"{arranged} && {seen}", "sh", *as_account(account), "/mnt/llmgw")
    done = llmgw("--version", env=env, command=command)
    version, *left = done.stdout.splitlines()
    assert version.startswith("llmgw ") and len(left) == 1 and left[0].startswith(unpacked)


def test_first_starts_at_the_same_moment_unpack_once(away: Path, folder: Path) -> None:
    env = variables(away, SHIV_ROOT=str(folder / "unpacked"))
    together = [Program(["--version"], env, plain(away)).start() for _ in range(3)]
    assert [one.process.wait(60) for one in together] == [0] * 3, [one.text for one in together]
    (only,) = (path for path in (folder / "unpacked").iterdir() if path.is_dir())
    assert (only / "site-packages" / "llmgw").is_dir()


@as_root
def test_a_full_disk_is_told_in_a_sentence_and_mended_by_room(away: Path, folder: Path) -> None:
    small, env = folder / "small", variables(away, SHIV_ROOT=str(folder / "small"))
    small.mkdir(mode=0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "none", small], check=True)
    try:
        refused = llmgw("--version", env=env, command=plain(away), check=False)
        assert refused.returncode == 1
        assert f"could not be unpacked in {small}" in refused.stderr and "No space left" in refused.stderr
        assert "Traceback" not in refused.stderr
        subprocess.run(["mount", "-o", "remount,size=300m", small], check=True)
        assert llmgw("--version", env=env, command=plain(away)).stdout
    finally:
        subprocess.run(["umount", small], check=True)


def test_migrations_manual_and_every_module_are_inside(zipapp: Path) -> None:
    packed = {entry.removeprefix("site-packages/") for entry in zipfile.ZipFile(zipapp).namelist()}
    wanted = {name(path) for path in tracked_files() if name(path).startswith(("llmgw/", "docs/"))}
    assert any(path.startswith("llmgw/store/migrations/") for path in wanted)
    assert wanted - packed == set()
