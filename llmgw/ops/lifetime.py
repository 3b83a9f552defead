"""When a role ends: at a signal, or when the process that started it is gone.

A role started by `llmgw up` holds the read end of a pipe that only `up` can write to and never does. The kernel closes
the other end however `up` dies, so the pipe's end is the one sign that cannot be missed.
"""

import enum
import os
import signal
import sys
from collections.abc import Callable

import anyio

from llmgw.config.refusal import Refused


class Stop(enum.Enum):
    """Why a role ends."""

    SIGNAL = "signal"
    PARENT_GONE = "parent gone"


async def wait_for_stop(parent_fd: int | None, on_watching: Callable[[], None] = lambda: None) -> Stop:
    """Return at SIGTERM or SIGINT, or once the other end of the pipe `parent_fd` is closed.

    `on_watching` is called once a signal is heard: who is told earlier that a role runs may kill it by stopping it.
    """
    reason = Stop.SIGNAL
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as arrived:
        async with anyio.create_task_group() as tasks:
            on_watching()

            async def watch_signals() -> None:
                async for _ in arrived:
                    tasks.cancel_scope.cancel()
                    return

            async def watch_parent(fd: int) -> None:
                nonlocal reason
                os.set_blocking(fd, False)
                while True:
                    await anyio.wait_readable(fd)
                    if not os.read(fd, 64):
                        reason = Stop.PARENT_GONE
                        tasks.cancel_scope.cancel()
                        return

            tasks.start_soon(watch_signals)
            if parent_fd is not None:
                tasks.start_soon(watch_parent, parent_fd)
    return reason


def refusals_in(error: BaseException) -> list[Refused]:
    """Return the refusals inside an exception or a tree of exception groups."""
    if isinstance(error, Refused):
        return [error]
    if isinstance(error, BaseExceptionGroup):
        return [found for inner in error.exceptions for found in refusals_in(inner)]
    return []


def exit_status(role: str, error: BaseException) -> int:
    """Say a refusal on standard error and return 1; let anything else go on. Used around a whole role."""
    found = refusals_in(error)
    if not found:
        raise error
    print(f"llmgw {role}: {found[0].sentence}", file=sys.stderr)
    return 1
