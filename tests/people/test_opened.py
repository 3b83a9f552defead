"""One unit on a store that a command opens for itself."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from llmgw.config.refusal import Refused
from llmgw.people.opened import on_store
from llmgw.store import nodes
from llmgw.store.loop import Store


def _make(address: str) -> None:
    async def main() -> None:
        async with Store(address):
            pass

    anyio.run(main, backend="trio")


def test_a_unit_runs_and_a_refusal_comes_through(address: str) -> None:
    _make(address)

    def refuse(_connection) -> None:
        raise Refused(409, "no")

    on_store(address, nodes.remember, "a", "")
    assert [node.id for node in on_store(address, nodes.known)] == ["a"]
    with pytest.raises(Refused, match="no"):
        on_store(address, refuse)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another")
def test_root_acts_as_the_owner_of_the_file_and_leaves_none_of_its_own(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        home = Path(folder) / "store"
        home.mkdir()
        _make(str(home / "llmgw.db"))
        for path in (home, *home.iterdir()):
            shutil.chown(path, "nobody", "nogroup")
        script = (
            "import os, sys\nfrom llmgw.people.opened import on_store\nfrom llmgw.store import nodes\n"
            "def work(connection):\n"
            "    nodes.remember(connection, 'a', '')\n"
            "    return os.geteuid(), {f: os.stat(os.path.join(sys.argv[2], f)).st_uid for f in os.listdir(sys.argv[2])}\n"
            "print(on_store(sys.argv[1], work))"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, str(home / "llmgw.db"), str(home)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        user, owners = eval(done.stdout)
        assert user != 0
        assert set(owners.values()) == {user}
