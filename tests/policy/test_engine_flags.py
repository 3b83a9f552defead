"""The tables themselves: written in the form the matcher looks up."""

from __future__ import annotations

from llmgw.policy import engine_flags
from llmgw.policy.engine_rules import ENGINES


def test_flags_are_written_with_hyphens_and_each_reason_completes_its_sentence() -> None:
    assert sorted(engine_flags.PER_ENGINE) == list(ENGINES)
    for table in (engine_flags.EVERY_ENGINE, *engine_flags.PER_ENGINE.values()):
        for flag, why in table.items():
            assert flag.startswith("-") and "_" not in flag and "=" not in flag
            assert why.split()[0].endswith("s") and not why.endswith(".")
