"""Which room may know which: import-linter's contracts in pyproject.toml, and the short list for the pure rooms.

`wire`, `policy`, `config` and `ports` are what everything else stands on: values in, values out. What they may import
is listed here by name, so that a clock, a random number or a socket cannot slip in.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.house.tree import ROOT, imports, name, python_files

PURE_OWN = ("llmgw.wire", "llmgw.policy", "llmgw.config", "llmgw.ports", "llmgw")
PURE_LIBRARIES = {"msgspec"}
ALSO = {
    "llmgw/wire/http1.py": {"httptools"},
    "llmgw/wire/http1_response.py": {"httptools"},
    "llmgw/config/load.py": {"ruamel"},
}
"""A file of a pure room that may use one library more: the parser it is a shell for."""

NEVER = {
    "asyncio",
    "logging",
    "os",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "threading",
    "time",
    "trio",
    "anyio",
}
"""Modules of the standard library, and two others, that would make a decision depend on more than its arguments."""

CONFIG_MAY = {"os"}
"""config reads files."""


def test_the_contracts_of_import_linter_hold() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    checked = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout[-6000:] + checked.stderr[-2000:]


def test_the_pure_rooms_import_nothing_beyond_their_list() -> None:
    wrong = [
        f"{name(path)}:{line} imports {module}"
        for path in python_files("llmgw/wire", "llmgw/policy", "llmgw/config", "llmgw/ports.py")
        for line, module in imports(path)
        if not _is_allowed(path, module)
    ]
    assert wrong == []


def test_nothing_in_wire_or_policy_awaits() -> None:
    import ast

    waiting = [
        f"{name(path)}:{node.lineno}"
        for path in python_files("llmgw/wire", "llmgw/policy")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Await | ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith)
    ]
    assert waiting == []


def _is_allowed(path: Path, module: str) -> bool:
    top = module.partition(".")[0]
    if top == "llmgw":
        return any(module == own or module.startswith(f"{own}.") for own in PURE_OWN[:-1]) or module in (
            "llmgw.__version__",
            "llmgw.wire",
            "llmgw.policy",
            "llmgw.config",
            "llmgw.ports",
        )
    if top in NEVER:
        return top in CONFIG_MAY and "config" in path.parts
    return top in sys.stdlib_module_names or top in PURE_LIBRARIES or top in ALSO.get(name(path), set())
