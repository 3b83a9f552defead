"""The agent's directories: keys and logs are its own, model files everyone's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llmgw.agent.directories import prepare_directories
from llmgw.agent.engine_user import engine_user
from llmgw.config.refusal import Refused
from tests.agent.node_rig import node_config, open_folder


def test_directories_are_made_with_their_modes_and_owners() -> None:
    with open_folder() as folder:
        user = engine_user("nobody")
        for _ in range(2):
            found = prepare_directories(node_config(folder), user)
        modes = [path.stat().st_mode & 0o777 for path in (found.shards, found.logs, found.engines, found.weights)]
        assert modes == [0o700, 0o700, 0o750, 0o755]
        assert found.engines.stat().st_uid == (user.uid if user else os.geteuid())


def test_a_directory_that_cannot_be_made_is_refused_naming_it(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(Refused, match=str(tmp_path / "state")):
        prepare_directories(node_config(tmp_path), None)
