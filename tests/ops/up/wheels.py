"""Wheels made on the spot, found by the real pip through a folder and no index."""

import zipfile
from collections.abc import Mapping
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str, files: Mapping[str, bytes], requires: tuple[str, ...] = ()) -> Path:
    """Write `NAME-VERSION-py3-none-any.whl` holding `files` below the module's folder."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    path = folder / f"{module}-{version}-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {line}\n" for line in requires)
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in files.items():
            archive.writestr(f"{module}/{member}", content)
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path
