"""What every test of the project shares: the marker by which a test claims a row of the specification, the one file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.zipapp_under_test import zipapp_under_test


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, so that `--strict-markers` refuses a misspelt one."""
    config.addinivalue_line(
        "markers",
        "covers(*rows): this test proves these rows of the specification, whole, as their text says",
    )
    # How long an example takes says something of the machine and of what else runs on it, nothing of the code.
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")


@pytest.fixture(scope="session")
def zipapp() -> Path:
    """The zipapp of the tree as it is, built once and kept until something that goes into it changes."""
    return zipapp_under_test()
