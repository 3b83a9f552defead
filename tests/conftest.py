"""What every test of the project shares: the marker by which a test claims a row of the specification."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, so that `--strict-markers` refuses a misspelt one."""
    config.addinivalue_line(
        "markers",
        'covers("S-13", ...): this test proves these rows of the specification, whole, as their text says',
    )
