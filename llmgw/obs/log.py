"""The log of a process: one line per event on standard error, text or JSON, time in UTC (M-651).

Every line passes `redaction` last, so that a key that slipped into a sentence or an address is struck out (M-653).
That is the net under the rope: callers must not log prompt or answer text, keys or passwords in the first place.

A log that cannot be written, on a full disk or into a pipe nobody reads, costs lines and nothing else: the first line
that can be written again says how many, as `lost_lines`.
"""

import logging
import sys
from collections.abc import MutableMapping
from functools import partial
from typing import Any, TextIO, cast

import structlog

from llmgw.config.redaction import redact
from llmgw.obs.lossy_stream import LossyStream

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def configure(fmt: str = "text", level: str = "info", stream: TextIO | None = None) -> None:
    """Set the process's log up. `fmt` is "text" or "json"; `level` debug, info, warning or error; both as in `log`."""
    if fmt not in ("text", "json"):
        raise ValueError(f"log format {fmt!r} is neither text nor json")
    out = LossyStream(stream if stream is not None else sys.stderr)
    render = structlog.processors.JSONRenderer(ensure_ascii=False) if fmt == "json" else _text
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            partial(_say_lost, out),
            _redact_event,
            structlog.processors.EventRenamer("message"),
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", out)),
        cache_logger_on_first_use=False,
    )


def get(name: str) -> Any:
    """Return the logger of a part of the program: `get("agent.link").info("connected", node=node_id)`."""
    return structlog.get_logger().bind(logger=name)


def _say_lost(out: LossyStream, _: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {**event, "lost_lines": out.lost} if out.lost else event


def _redact_event(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: redact(value if _is_plain(value) else str(value), key) for key, value in event.items()}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool, dict, list, tuple, bytes))


def _text(_: Any, __: str, event: MutableMapping[str, Any]) -> str:
    """Render `2026-01-31T12:00:00.000000Z info    agent.link: connected node=n1`, a traceback on lines of its own."""
    time, level = event.pop("time"), event.pop("level")
    message, logger = event.pop("message", ""), event.pop("logger", "")
    trace = event.pop("exception", "")
    facts = "".join(f" {key}={_word(value)}" for key, value in event.items())
    where = f"{logger}: " if logger else ""
    return f"{time} {level:<7} {where}{_one_line(message)}{facts}" + (f"\n{trace}" if trace else "")


def _word(value: Any) -> str:
    text = _one_line(value)
    return f'"{text}"' if not text or " " in text else text


def _one_line(value: Any) -> str:
    """Keep what others sent on one line, so that nobody can write a line of their own into the log."""
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
