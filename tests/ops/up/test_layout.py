"""One folder holds everything; secrets are its owner's; one `up` at a time."""

import subprocess
import sys
from pathlib import Path

import pytest

from llmgw.config.refusal import Refused
from llmgw.ops.up.layout import Layout, default_data_dir, only_one


def test_secrets_store_and_logs_are_closed_and_the_rest_is_open(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "data")
    layout.make()
    closed = (layout.secrets, layout.store.parent, layout.logs)
    opened = (layout.root, layout.engines, layout.models, layout.agent_state)
    assert {p.stat().st_mode & 0o777 for p in closed} == {0o700}
    assert {p.stat().st_mode & 0o777 for p in opened} == {0o755}


def test_a_folder_that_cannot_be_made_is_refused_with_the_option(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="give another folder with --data"):
        Layout(tmp_path / "file" / "data").make()


def test_the_default_follows_the_desktop_convention(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_data_dir() == tmp_path / "llmgw"
    monkeypatch.setenv("XDG_DATA_HOME", "relative/is/ignored")
    assert default_data_dir().is_absolute()


def test_a_second_up_on_the_same_folder_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    hold = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
    hold += "from pathlib import Path\nfrom llmgw.ops.up.layout import Layout, only_one\n"
    hold += f"with only_one(Layout(Path({str(tmp_path)!r}))):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    holder = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(Refused, match=f"process {holder.pid}"), only_one(layout):
        pass
    holder.kill()
    holder.communicate()
    with only_one(layout):
        assert (tmp_path / "up.lock").read_text().isdigit()
