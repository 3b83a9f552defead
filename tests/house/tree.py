"""What the checks of the house look at: the project's own files, as a checkout holds them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def tracked_files() -> list[Path]:
    """Every file of the project that git knows, or would on `git add`; all files where there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        return [path for path in sorted(ROOT.rglob("*")) if path.is_file() and not _is_scratch(path)]
    return sorted({ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()})


def python_files(*below: str) -> list[Path]:
    """The Python files under the named folders or files of the checkout."""
    wanted = [ROOT / name for name in below]
    return [
        path
        for path in tracked_files()
        if path.suffix == ".py" and any(path == one or one in path.parents for one in wanted)
    ]


def name(path: Path) -> str:
    """A path as the checks print it."""
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and dotted name of everything a file imports, wherever in it; `from a import b` gives `a.b`."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _is_scratch(path: Path) -> bool:
    parts = path.relative_to(ROOT).parts
    return any(part.startswith(".") or part in ("dist", "__pycache__", "bench-results") for part in parts)
