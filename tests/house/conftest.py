"""What only the checks of the house share: a word about what they could not run."""

from __future__ import annotations

import pytest

from tests.house.interpreters import missing


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which interpreters nothing was run on."""
    if missing():
        terminalreporter.write_line(f"not run, because not on this machine: CPython {', '.join(missing())}")
