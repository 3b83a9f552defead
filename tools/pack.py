"""The part of `build.py zipapp` that needs shiv: one folder to one executable file. Runs in the environment.

    python -m tools.pack FOLDER OUTPUT MACHINE

shiv writes the archive; its one-line head is replaced by ours, and what the archive starts with is our own module
instead of shiv's bootstrap, of which that module uses the unpacking.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path

from shiv import __version__ as shiv_version
from shiv.bootstrap.environment import Environment
from shiv.builder import create_archive

from tools.paths import ROOT

LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The date of every file inside, so that the same content gives the same bytes."""


def pack(folder: Path, output: Path, machine: str) -> None:
    """Write `output` from the site folder; replaces an older file only when complete."""
    hooks = sorted(folder.rglob("*.pth"))
    if hooks:
        sys.exit(f"{hooks[0]} would have to be run at every start, and the program's start reads no .pth file")
    environment = Environment(
        built_at="1980-01-01 00:00:00",
        shiv_version=shiv_version,
        compile_pyc=False,
        reproducible=True,
    )
    unfinished = output.with_name(output.name + ".unfinished")
    create_archive([folder], unfinished, "python3", "_start:start", environment)
    archive = unfinished.read_bytes().split(b"\n", 1)[1]
    unfinished.write_bytes((ROOT / "tools" / "zipapp_head.sh").read_bytes() + archive)
    # Appending rewrites the archive's directory, so its offsets count our head too.
    with zipfile.ZipFile(unfinished, "a") as opened:
        entry = zipfile.ZipInfo("_start.py", LONG_AGO)
        entry.compress_type = zipfile.ZIP_DEFLATED
        start = (ROOT / "tools" / "zipapp_start.py").read_text("utf-8")
        build_id = json.loads(opened.read("environment.json"))["build_id"]
        opened.writestr(entry, start.replace("@MACHINE@", machine).replace("@BUILD@", build_id))
    unfinished.chmod(0o755)
    os.replace(unfinished, output)


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
