"""Which engines can be used is what their programs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmgw.agent.engine_probe import EngineProbe
from llmgw.agent.engine_user import engine_user
from llmgw.agent.engines.adapter import CannotStart
from llmgw.agent.engines.registry import EngineRegistry
from llmgw.config.agent import EngineSettings, LlamacppSettings
from tests.agent.node_rig import LLAMA_SERVER, run, script


def _probe(folder: Path, program: str, disabled: tuple[str, ...] = ()) -> tuple[EngineProbe, EngineRegistry]:
    settings = EngineSettings(llamacpp=LlamacppSettings(bin=program), disabled=list(disabled))
    registry = EngineRegistry(settings)
    return EngineProbe(registry, str(folder), engine_user("nobody")), registry


def test_a_program_that_runs_is_offered_with_its_version_and_lists_its_devices() -> None:
    async def main(folder: Path) -> None:
        probe, registry = _probe(folder, LLAMA_SERVER)
        assert not probe.complete.is_set()
        await probe.probe()
        assert probe.complete.is_set() and set(probe.versions()) == {"llamacpp"}
        assert await probe.devices(registry.adapter("llamacpp")) == []

    run(main)


@pytest.mark.covers("E-50")
def test_what_cannot_run_fails_or_is_disabled_is_not_offered() -> None:
    async def main(folder: Path) -> None:
        failing = folder / "failing"
        failing.write_text("#!/bin/sh\necho boom\nexit 9\n")
        failing.chmod(0o755)
        for program in ("/no/such/program", "/etc/passwd", str(failing)):
            probe, registry = _probe(folder, program)
            await probe.probe()
            assert probe.complete.is_set() and not probe.versions()
        with pytest.raises(CannotStart, match="exits 9: boom"):
            await probe.devices(registry.adapter("llamacpp"))
        probe, _ = _probe(folder, LLAMA_SERVER, ("llamacpp",))
        await probe.probe()
        assert not probe.versions()

    run(main)


def test_an_engine_that_was_taken_away_is_no_longer_offered() -> None:
    async def main(folder: Path) -> None:
        program = Path(script(folder, "engine", ""))
        probe, _ = _probe(folder, str(program))
        await probe.probe()
        assert probe.versions() == {"llamacpp": "b1-abc"}
        program.unlink()
        await probe.probe()
        assert not probe.versions()

    run(main)
