"""Waiting for the model, saying what happens meanwhile."""

import select
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llmgw.admin.client import ClientFailure
from llmgw.config.refusal import Refused
from llmgw.ops.up.children import Children

_EVERY_S = 0.2

Ask = Callable[..., Any]
"""`ask(operation, params=..., query=...)` asks the admin API and returns its decoded answer. Raises ClientFailure."""


def wait_for_server(ask: Ask, children: Children, limit_s: float, stop_fd: int) -> None:
    """Return once the admin API answers. Raises Refused with the server's last words, or at the limit."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        children.require_running()
        try:
            ask("version")
            return
        except ClientFailure:
            pause(stop_fd)
    raise Refused(500, f"the server did not answer within {limit_s:.0f} s; see {children.layout.logs}/server.log")


def wait_for_model(ask: Ask, children: Children, model: str, say: Callable[[str], None], stop_fd: int) -> None:
    """Return once `model` has a ready replica. Raises Refused when it is parked or fits nowhere for good."""
    said = ""
    while True:
        children.require_running()
        sentence = _progress(ask, model)
        if sentence is None:
            return
        if sentence and sentence != said:
            say(sentence)
            said = sentence
        pause(stop_fd)


def _progress(ask: Ask, model: str) -> str | None:
    """Return None when ready, else what is being done. Raises Refused for a model that will not come."""
    line: Mapping[str, Any] = next((m for m in ask("list_models") if m["name"] == model), {})
    if line.get("ready", 0) > 0:
        return None
    if line.get("parked"):
        raise Refused(500, f"{model} does not start: {line.get('reason', 'no reason is known')}")
    replicas: Sequence[Mapping[str, Any]] = ask("list_replicas", query={"model": model})
    if not replicas:
        return _why_nowhere(ask, model) if line.get("unplaceable") else ""
    replica = replicas[0]
    fetch = replica.get("fetch")
    if replica.get("state") == "fetching" and fetch:
        return fetch_sentence(int(fetch.get("done", 0)), int(fetch.get("total", 0)))
    if replica.get("state") == "failed":
        return f"the engine failed and is tried again: {replica.get('error', '')}"
    return "loading the model"


def _why_nowhere(ask: Ask, model: str) -> str:
    placement = ask("placement", params={"name": model})
    reasons = [r["reason"] for p in placement.get("profiles", ()) for r in p.get("rejections", ())]
    return f"waiting for room: {reasons[0]}" if reasons else "waiting for this machine to report"


def fetch_sentence(done_bytes: int, total_bytes: int) -> str:
    """Return download progress in tenths: a line is printed when it changes."""
    if total_bytes <= 0:
        return f"downloading the model: {done_bytes // 50_000_000 * 50} MB"
    tenths = min(10, done_bytes * 10 // total_bytes)
    return f"downloading the model: {tenths * 10} % of {total_bytes / 1e6:.0f} MB"


def pause(stop_fd: int) -> None:
    """Wait a moment, or less when `stop_fd` says to stop. Raises KeyboardInterrupt then."""
    ready, _, _ = select.select([stop_fd], [], [], _EVERY_S)
    if ready:
        raise KeyboardInterrupt
