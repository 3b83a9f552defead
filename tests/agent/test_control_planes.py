"""The list of control planes, kept across an agent's restarts."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from llmgw.agent.control_planes import FILE_NAME, ControlPlaneList
from llmgw.config.refusal import Refused


def _dialled(planes: ControlPlaneList) -> list[str]:
    return [str(address) for address in planes.addresses()]


@pytest.mark.covers("P-71")
def test_a_named_second_server_survives_a_restart_before_any_contact(tmp_path: Path) -> None:
    state = tmp_path / "state"
    planes = ControlPlaneList(["cp-1"], True, str(state))
    assert planes.learn(["https://cp-2:7443", "ftp://nonsense", "cp-1"])
    assert _dialled(planes) == ["https://cp-1:7443", "https://cp-2:7443"]
    again = ControlPlaneList(["cp-1"], True, str(state))
    assert _dialled(again) == ["https://cp-1:7443", "https://cp-2:7443"]
    kept = state / FILE_NAME
    assert json.loads(kept.read_text()) == ["https://cp-2:7443", "ftp://nonsense", "cp-1"]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o644
    assert stat.S_IMODE(state.stat().st_mode) == 0o755
    assert [path.name for path in state.iterdir()] == [FILE_NAME]
    before = kept.stat().st_mtime_ns
    assert not again.learn(["cp-1", "https://cp-2:7443"])
    assert kept.stat().st_mtime_ns == before
    assert again.learn([])
    assert _dialled(again) == ["https://cp-1:7443"]


@pytest.mark.covers("P-71")
@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[", b'"cp-2"', b"\xff", b"[" * 100_000, b"null"], ids=range(7)
)
def test_a_file_that_is_no_list_leaves_the_configured_servers(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    assert _dialled(ControlPlaneList(["cp-1"], True, str(tmp_path))) == ["https://cp-1:7443"]


def test_entries_of_the_file_that_are_no_text_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('[1, null, "cp-2"]')
    assert _dialled(ControlPlaneList(["cp-1"], True, str(tmp_path))) == [
        "https://cp-1:7443",
        "https://cp-2:7443",
    ]


def test_a_configuration_without_servers_or_with_an_unreadable_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no servers"):
        ControlPlaneList([], True, str(tmp_path))
    with pytest.raises(Refused, match="'cp:x'"):
        ControlPlaneList(["cp-1", "cp:x"], True, str(tmp_path))
