"""A start that fails leaves nothing running and nothing saved, and says the same words as the catalog would."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from llmgw.policy.engine_rules import unsafe_argument, unsafe_environment
from llmgw.wire.agent import LoraAdapter, ShardState
from tests.agent.node_rig import (
    model_file,
    node_config,
    run,
    running_node,
    script,
    start_command,
    stop_command,
)


@pytest.mark.covers("X-12", "X-13")
def test_an_unsafe_profile_is_failed_with_the_catalogs_words_and_nothing_is_started() -> None:
    async def main(folder: Path) -> None:
        async with running_node(node_config(folder)) as rig:
            rig.command(start_command(model_file(folder), args=["--api_key=x"]))
            status = await rig.told(ShardState.FAILED)
            assert status.error == unsafe_argument("llamacpp", ["--api_key=x"])
            rig.command(start_command(model_file(folder), "m-2-0", env={"HF_TOKEN": "x"}))
            status = await rig.told(ShardState.FAILED, shard_id="m-2-0")
            assert status.error == unsafe_environment({"HF_TOKEN": "x"}, defining=False)
            assert not list((folder / "state" / "logs").iterdir())

    run(main)


def test_an_id_that_is_no_plain_name_never_becomes_a_path() -> None:
    async def main(folder: Path) -> None:
        async with running_node(node_config(folder)) as rig:
            for shard_id in ("../../escape", "a/b", ".hidden"):
                rig.command(start_command(model_file(folder), shard_id))
                status = await rig.told(ShardState.FAILED, shard_id=shard_id)
                assert "no plain name" in status.error
                rig.command(stop_command(shard_id))
                await rig.told(ShardState.STOPPED, shard_id=shard_id)
            assert sorted(path.name for path in folder.iterdir()) == ["chat.gguf", "state", "weights"]

    run(main)


def test_a_failed_shard_may_be_started_again_under_its_id() -> None:
    async def main(folder: Path) -> None:
        async with running_node(node_config(folder)) as rig:
            rig.command(start_command("/nowhere.gguf"))
            await rig.told(ShardState.FAILED)
            rig.command(start_command(model_file(folder)))
            await rig.in_state(ShardState.READY)

    run(main)


def test_a_stop_and_a_start_sent_together_end_in_a_new_process() -> None:
    async def main(folder: Path) -> None:
        async with running_node(node_config(folder)) as rig:
            first = await rig.started(start_command(model_file(folder)))
            assert first.process is not None
            rig.command(stop_command())
            rig.command(start_command(model_file(folder)))
            with anyio.fail_after(30):
                while ShardState.STOPPED not in rig.states():
                    await anyio.sleep(0.02)
            second = await rig.in_state(ShardState.READY)
            assert second.process is not None and second.process.identity != first.process.identity
            assert first.process.members() == []

    run(main)


def test_adapters_with_a_path_the_engine_cannot_take_are_refused() -> None:
    async def main(folder: Path) -> None:
        path = folder / "a,b.gguf"
        path.write_bytes(b"x")
        async with running_node(node_config(folder, script(folder, "engine", "exec sleep 1000\n"))) as rig:
            rig.command(start_command(model_file(folder), adapters=[LoraAdapter(name="a", source=str(path))]))
            status = await rig.told(ShardState.FAILED)
            assert "colon or a comma" in status.error

    run(main)
