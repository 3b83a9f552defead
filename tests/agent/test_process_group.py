"""A shard's processes end as a whole: those that ignore SIGTERM, that were forked, and that left the group."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest

from llmgw.agent.engine_user import engine_user
from llmgw.agent.engines.adapter import CannotStart, Command
from llmgw.agent.process_group import EngineProcess, ProcessIdentity, launch, marked_processes
from tests.agent.node_rig import run, script

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


async def _launched(folder: Path, text: str, marker: str = "") -> EngineProcess:
    program = script(folder, "engine", text)
    output_fd = os.open(folder / "out", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        return await launch(
            Command("engine", program, [], ENV),
            str(folder),
            output_fd,
            marker or f"{folder}#s",
            engine_user("nobody"),
        )
    finally:
        os.close(output_fd)


async def _written(folder: Path, word: str) -> None:
    with anyio.fail_after(20):
        while word not in (folder / "out").read_text():
            await anyio.sleep(0.02)


@pytest.mark.covers("E-134")
def test_a_process_that_ignores_sigterm_is_killed_after_its_grace() -> None:
    async def main(folder: Path) -> None:
        process = await _launched(folder, "trap '' TERM\necho up\nwhile :; do sleep 0.1; done\n")
        await _written(folder, "up")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.watch)
            await process.stop(0.2)
        assert process.members() == [] and process.exit_code == 137

    run(main)


@pytest.mark.covers("E-134", "F-23")
def test_children_that_outlive_the_first_process_are_ended_with_it() -> None:
    async def main(folder: Path) -> None:
        process = await _launched(folder, "sleep 1000 &\nsleep 1000 &\necho up\nexit 0\n")
        await _written(folder, "up")
        await process.watch()
        assert process.exit_code == 0 and len(process.members()) == 2
        await process.stop(5.0)
        assert process.members() == []

    run(main)


@pytest.mark.covers("F-23")
def test_a_child_that_left_the_group_and_the_session_is_found_by_its_mark() -> None:
    async def main(folder: Path) -> None:
        marker = f"{folder}#s"
        process = await _launched(folder, "setsid sleep 1000 &\necho up\nexec sleep 1000\n")
        await _written(folder, "up")
        with anyio.fail_after(10):
            while len(marked_processes(marker)) < 2:
                await anyio.sleep(0.02)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.watch)
            await process.stop(5.0)
        assert marked_processes(marker) == []

    run(main)


def test_a_stop_is_not_cut_short_by_cancellation() -> None:
    async def main(folder: Path) -> None:
        process = await _launched(folder, "trap '' TERM\necho up\nwhile :; do sleep 0.1; done\n")
        await _written(folder, "up")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(process.watch)
            with anyio.CancelScope() as scope:
                scope.cancel()
                await process.stop(0.1)
        assert process.members() == []

    run(main)


def test_a_number_given_to_another_process_is_no_member() -> None:
    identity = ProcessIdentity(os.getpid(), 1, "other")
    process = EngineProcess(identity, "nobody#none", None)
    assert process.members() == [] and not identity.is_running()


@pytest.mark.parametrize(
    ("path", "words"), [("/nowhere/engine", "no such program"), ("/etc/passwd", "may not run it")]
)
def test_a_program_that_cannot_be_started_is_refused_in_words(path: str, words: str) -> None:
    async def main(folder: Path) -> None:
        with pytest.raises(CannotStart) as refused:
            await launch(Command("x", path, [], ENV), str(folder), 2, "m", engine_user("nobody"))
        assert words in refused.value.sentence and path in refused.value.sentence

    run(main)
