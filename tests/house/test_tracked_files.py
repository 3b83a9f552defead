"""No file names the machine it was written on, or a package registry's host.

Where packages come from is settled on the machine that runs pip; a host in the tree would be wrong on the next one.
"""

from __future__ import annotations

import re

from tests.house.tree import ROOT, name, tracked_files

HOSTS = "|".join(
    re.escape(".".join(parts))
    for parts in (
        ("pypi", "org"),
        ("files", "pythonhosted"),
        ("registry", "npmjs"),
        ("proxy", "golang"),
        ("conda", "anaconda"),
    )
)
PATHS = r"(?<![\w.])/(?:work|root|home/[a-z]\w*|opt/[p]ypi)(?=/)"
FORBIDDEN = re.compile(f"{HOSTS}|{PATHS}")


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    found = []
    for path in tracked_files():
        try:
            lines = path.read_text("utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        found += [
            f"{name(path)}:{number} {match[0]}"
            for number, line in enumerate(lines, 1)
            if (match := FORBIDDEN.search(line))
        ]
    assert found == []


def test_nothing_built_is_tracked() -> None:
    built = [name(path) for path in tracked_files() if path.suffix in {".pyc", ".so", ".o", ".db", ".gguf"}]
    assert built == []


def test_the_version_is_one() -> None:
    import tomllib

    import llmgw

    assert (
        tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"] == llmgw.__version__
    )
