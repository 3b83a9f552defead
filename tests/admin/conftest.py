from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.admin.admin_server import RunningAdmin, running_admin


@pytest.fixture
def admin() -> Iterator[RunningAdmin]:
    with running_admin() as running:
        yield running


@pytest.fixture(scope="module")
def admin_shared() -> Iterator[RunningAdmin]:
    """One server for tests of a file that leave nothing behind."""
    with running_admin() as running:
        yield running
