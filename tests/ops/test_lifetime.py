"""A role ends at a signal or when its parent is gone."""

import os
import signal

import anyio

from llmgw.config.refusal import Refused
from llmgw.ops.lifetime import Stop, exit_status, refusals_in, wait_for_stop


def test_the_end_of_the_pipe_is_the_parents_death() -> None:
    read_fd, write_fd = os.pipe()

    async def main() -> Stop:
        os.close(write_fd)
        with anyio.fail_after(10):
            return await wait_for_stop(read_fd)

    assert anyio.run(main, backend="trio") is Stop.PARENT_GONE
    os.close(read_fd)


def test_a_byte_in_the_pipe_is_not_an_end_and_a_signal_is() -> None:
    read_fd, write_fd = os.pipe()
    os.write(write_fd, b"x")

    async def main() -> Stop:
        result: list[Stop] = []
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:

                async def wait() -> None:
                    result.append(await wait_for_stop(read_fd))

                tasks.start_soon(wait)
                await anyio.wait_all_tasks_blocked()
                os.kill(os.getpid(), signal.SIGTERM)
        return result[0]

    assert anyio.run(main, backend="trio") is Stop.SIGNAL
    os.close(read_fd)
    os.close(write_fd)


def test_a_refusal_deep_in_a_group_becomes_a_sentence_and_status_one(capsys: "object") -> None:
    group = BaseExceptionGroup("services", [ExceptionGroup("inner", [Refused(409, "port 1 is in use")])])
    assert [r.sentence for r in refusals_in(group)] == ["port 1 is in use"]
    assert exit_status("server", group) == 1
    assert capsys.readouterr().err == "llmgw server: port 1 is in use\n"  # type: ignore[attr-defined]
