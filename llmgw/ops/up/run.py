"""`llmgw up` from start to end.

Everything that can be refused is refused before a process is started: the folder, the ports, the engine, the model.
What then runs is the server and the agent of a cluster, told to find each other on loopback; nothing here serves.
"""

import json
import os
import select
import shutil
import sys
from pathlib import Path
from typing import Any

import llmgw
from llmgw.admin.client import AdminClient, ClientFailure
from llmgw.config.refusal import Refused
from llmgw.ops.up.account import engine_account
from llmgw.ops.up.answer import TEXT_TO_CONTINUE, stream_first_answer
from llmgw.ops.up.api_key import usable_key
from llmgw.ops.up.certificates import ensure_certificates
from llmgw.ops.up.children import Children
from llmgw.ops.up.engine import choose_engine
from llmgw.ops.up.files import kept_engine_ports, write_configuration
from llmgw.ops.up.layout import Layout, default_data_dir, only_one
from llmgw.ops.up.model import ModelChoice, choose_model, require_model
from llmgw.ops.up.ports import HOST, Ports, choose_ports
from llmgw.ops.up.stop_signal import stop_signal
from llmgw.ops.up.watch import Ask, wait_for_model, wait_for_server

_SERVER_START_LIMIT_S = 60.0
_WATCH_S = 1.0


def main(model: str | None, engine: str | None, data: str | None, port: int | None) -> int:
    """Run until Ctrl-C. Returns the exit status: 0 after Ctrl-C, 1 after a refusal (said on standard error)."""
    layout = Layout(Path(data).expanduser().resolve() if data else default_data_dir())
    try:
        layout.make()
        with only_one(layout), stop_signal() as stop_fd:
            return _run(layout, model, engine, port, stop_fd)
    except (Refused, ClientFailure) as refusal:
        print(f"llmgw up: {refusal.sentence}", file=sys.stderr)
        return 1
    except OSError as error:  # a full disk, a folder where a file belongs: the machine's state, not a fault of ours
        print(f"llmgw up: {error.filename or layout.root}: {error.strerror or error}", file=sys.stderr)
        return 1


def _run(layout: Layout, model: str | None, engine: str | None, port: int | None, stop_fd: int) -> int:
    say(f"llmgw {llmgw.__version__}, data in {layout.root}")
    account = engine_account()
    if account is not None:
        say(f"running as root; engines run as {account}")
    choose_ports(port)
    require_model(model)
    program = choose_engine(engine, layout, account, say)
    say(f"engine: llama.cpp at {program}")
    choice = choose_model(model, layout, account, say)
    say(f"model: {choice.name} ({choice.description}); licence: {choice.licence}")
    ensure_certificates(layout)
    # Chosen anew: what was free before a download of minutes may not be now.
    ports = choose_ports(port, kept_engine_ports(layout))
    write_configuration(layout, ports, program, choice, account)
    try:
        with Children(layout) as children:
            _serve(layout, ports, choice, children, stop_fd)
    except KeyboardInterrupt:
        say("stopped; nothing is left running")
    finally:
        layout.address_file.unlink(missing_ok=True)
    return 0


def _serve(layout: Layout, ports: Ports, choice: ModelChoice, children: Children, stop_fd: int) -> None:
    ask = admin_question(layout, ports)
    children.start("server", layout.server_yaml)
    wait_for_server(ask, children, _SERVER_START_LIMIT_S, stop_fd)
    children.start("agent", layout.agent_yaml, ["--stop-engines"])
    wait_for_model(ask, children, choice.name, say, stop_fd)
    key = usable_key(layout, ports.client)
    _introduce(ports, key, choice)
    stream_first_answer(ports.client, key, choice.name, choice.continues_text, write)
    write("\n\n")
    say("ready; Ctrl-C stops everything")
    while not select.select([stop_fd], [], [], _WATCH_S)[0]:
        children.require_running()
    say("stopping the engines, then the agent and the server")
    raise KeyboardInterrupt


def _introduce(ports: Ports, key: str, choice: ModelChoice) -> None:
    """Say where it is and how to ask, in the form that fits the model."""
    url = f"http://{HOST}:{ports.client}/v1"
    if choice.continues_text:
        path, call, asked = "completions", "completions", {"prompt": TEXT_TO_CONTINUE}
    else:
        path, call, asked = "chat/completions", "chat.completions", {"messages": [{"role": "user", "content": "Hello"}]}
    body = {"model": choice.name, **asked, "max_tokens": 64}
    arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in body.items())
    write(f"\n  URL  {url}\n  key  {key}\n\n")
    write(
        f"  curl -N {url}/{path} -H 'Authorization: Bearer {key}' \\\n"
        f"       -H 'Content-Type: application/json' -d '{json.dumps(body | {'stream': True})}'\n\n"
    )
    write(f'  python: openai.OpenAI(base_url="{url}", api_key="{key}").{call}.create({arguments})\n\n')
    write("A first answer, as it is written:\n\n")
    if choice.continues_text:
        write(TEXT_TO_CONTINUE)


def admin_question(layout: Layout, ports: Ports) -> Ask:
    """Return a function that asks the admin API, with the token as it is then."""

    def ask(operation: str, **what: Any) -> Any:
        try:
            token = (layout.secrets / "admin-token").read_text("ascii", errors="replace").strip()
        except OSError:
            raise ClientFailure("the server has not made its admin token yet") from None
        return AdminClient(f"http://{HOST}:{ports.admin}", token, "up").call(operation, **what)

    return ask


def say(sentence: str) -> None:
    """Print one line of progress."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    print(f"llmgw up: {sentence}"[: max(width, 0) or None], flush=True)


def write(text: str) -> None:
    """Print text as it comes; a reader that is gone is not an error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
