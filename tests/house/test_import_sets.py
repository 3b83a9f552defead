"""No role imports more than its set."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.house.import_sets import COMMANDS, ROLES
from tests.house.tree import ROOT

COMMAND = """
import atexit, json, sys
sys.argv = ["llmgw", *json.loads(sys.argv[1])]
atexit.register(lambda: print("\\n" + json.dumps(sorted(sys.modules)), file=sys.stderr))
from llmgw.__main__ import main
main()
"""

IMPORT = """
import importlib, json, sys
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
print("\\n" + json.dumps(sorted(sys.modules)), file=sys.stderr)
"""

NOT_LIBRARIES = {"llmgw", "__main__", "__mp_main__", "cython_runtime", "sitecustomize", "usercustomize"}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_imports_no_more_than_its_set(command: tuple[str, ...]) -> None:
    assert libraries(COMMAND, command) - COMMANDS[command] == set()


@pytest.mark.parametrize("modules", ROLES, ids=lambda modules: modules[0])
def test_a_role_imports_no_more_than_its_set(modules: tuple[str, ...]) -> None:
    assert libraries(IMPORT, modules) - ROLES[modules] == set()


def libraries(script: str, given: tuple[str, ...]) -> set[str]:
    """Top-level names that a process imported beyond the standard library, once it has done what the script says."""
    ran = subprocess.run(
        [sys.executable, "-c", script, json.dumps(given)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    loaded = {name.partition(".")[0] for name in json.loads(ran.stderr.rpartition("\n[")[2].join(("[", "")))}
    return {name for name in loaded - NOT_LIBRARIES - sys.stdlib_module_names if not name.startswith("_")}
