"""Downloads: taken up where they broke, verified, bounded, and never followed where they must not go."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import anyio
import httpx
import pytest

from llmgw.agent.fetch import Fetcher, FetchFailed, Wanted
from tests.agent.file_server import Site, serving

DATA = bytes(range(256)) * 12_000
DIGEST = hashlib.sha256(DATA).hexdigest()


def _run(site: Site, main: Callable[[Fetcher, Site], Awaitable[None]]) -> None:
    async def inside() -> None:
        with serving(site):
            async with httpx.AsyncClient(trust_env=False, timeout=10.0) as client:
                with anyio.fail_after(60):
                    await main(Fetcher(client, token="hub-token", first_pause_s=0.01), site)

    anyio.run(inside, backend="trio")


def _fetch(site: Site, path: Path, *, name: str = "/m.gguf", sha256: str = "", size: int = 0) -> list[tuple[int, int]]:
    told: list[tuple[int, int]] = []

    async def main(fetcher: Fetcher, site: Site) -> None:
        await fetcher.file(Wanted(site.base + name, path, sha256, size), lambda done, total: told.append((done, total)))

    _run(site, main)
    return told


def _fails(site: Site, path: Path, **options: object) -> str:
    with pytest.raises(FetchFailed) as failed:
        _fetch(site, path, **options)  # type: ignore[arg-type]
    return failed.value.sentence


@pytest.mark.covers("E-187")
def test_a_file_arrives_whole_verified_and_readable_by_all_with_progress(tmp_path: Path) -> None:
    path = tmp_path / "m"
    told = _fetch(Site(files={"/m.gguf": DATA}), path, sha256=DIGEST)
    assert path.read_bytes() == DATA and path.stat().st_mode & 0o777 == 0o644
    assert path.stat().st_uid == os.geteuid()
    assert told[0] == (0, len(DATA)) and told[-1] == (len(DATA), len(DATA)) and told == sorted(told)
    assert [one.name for one in tmp_path.iterdir()] == ["m"]


def test_a_line_that_breaks_again_and_again_costs_only_what_was_not_received(tmp_path: Path) -> None:
    site = Site(files={"/m.gguf": DATA}, cut=3, cut_bytes=500_000)
    _fetch(site, tmp_path / "m", sha256=DIGEST)
    starts = [headers.get("range") for _, headers in site.asked]
    assert starts == [None, "bytes=500000-", "bytes=1000000-", "bytes=1500000-"]
    assert site.asked[1][1]["if-range"] == '"v1"'


def test_a_half_file_is_taken_up_by_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "m.part").write_bytes(DATA[:1000])
    (tmp_path / "m.part.tag").write_text('"v1"')
    site = Site(files={"/m.gguf": DATA})
    _fetch(site, tmp_path / "m", sha256=DIGEST)
    assert site.asked[0][1]["range"] == "bytes=1000-"


def test_a_file_that_changed_at_its_origin_starts_anew(tmp_path: Path) -> None:
    (tmp_path / "m.part").write_bytes(b"old" * 1000)
    (tmp_path / "m.part.tag").write_text('"v0"')
    _fetch(Site(files={"/m.gguf": DATA}), tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == DATA


def test_an_origin_without_ranges_and_a_part_that_is_already_whole_both_end_well(tmp_path: Path) -> None:
    (tmp_path / "m.part").write_bytes(DATA[:1000])
    _fetch(Site(files={"/m.gguf": DATA}, ignores_range=True), tmp_path / "m", sha256=DIGEST)
    (tmp_path / "n.part").write_bytes(DATA)
    (tmp_path / "n.part.tag").write_text('"v1"')
    _fetch(Site(files={"/m.gguf": DATA}), tmp_path / "n", sha256=DIGEST)
    assert (tmp_path / "n").read_bytes() == DATA


def test_a_wrong_digest_or_size_removes_the_file_and_says_checksum(tmp_path: Path) -> None:
    site = Site(files={"/m.gguf": DATA})
    assert _fails(site, tmp_path / "m", sha256="0" * 64).startswith("checksum: ")
    assert _fails(site, tmp_path / "m", size=len(DATA) + 1).startswith("checksum: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.covers("E-186")
def test_refusals_fail_at_once_and_broken_lines_are_retried_five_times(tmp_path: Path) -> None:
    for status in (401, 403, 404):
        site = Site(statuses={"/m.gguf": [status]})
        assert f"answers {status}" in _fails(site, tmp_path / "m") and len(site.asked) == 1
    site = Site(files={"/m.gguf": DATA}, statuses={"/m.gguf": [500, 503, 429, 502, 500]})
    _fetch(site, tmp_path / "m", sha256=DIGEST)
    assert len(site.asked) == 6
    site = Site(files={"/m.gguf": DATA}, cut=99, cut_bytes=0)
    assert "broke off 6 times in a row" in _fails(site, tmp_path / "n") and len(site.asked) == 6
    _cancelled_download_keeps_its_part(tmp_path / "c")


def _cancelled_download_keeps_its_part(path: Path) -> None:
    import threading

    async def main(fetcher: Fetcher, site: Site) -> None:
        async with anyio.create_task_group() as tasks:
            heard = anyio.Event()

            def progress(done: int, _total: int) -> None:
                if done:
                    heard.set()

            tasks.start_soon(fetcher.file, Wanted(site.base + "/m.gguf", path), progress)
            await heard.wait()
            tasks.cancel_scope.cancel()
        assert not path.exists() and 0 < path.with_name("c.part").stat().st_size < len(DATA)

    _run(Site(files={"/m.gguf": DATA}, gate=threading.Event(), gate_bytes=2_000_000), main)


@pytest.mark.covers("E-185")
def test_redirects_are_followed_five_times_and_never_out_of_http(tmp_path: Path) -> None:
    hops = {f"/{number}": f"/{number + 1}" for number in range(1, 5)}
    site = Site(files={"/m.gguf": DATA}, redirects={**hops, "/5": "/m.gguf", "/0": "/1", "/f": "file:///etc/passwd"})
    _fetch(site, tmp_path / "m", name="/1", sha256=DIGEST)
    assert "redirects more than 5 times" in _fails(site, tmp_path / "n", name="/0")
    assert "address that is none" in _fails(site, tmp_path / "n", name="/f")


@pytest.mark.covers("E-185")
def test_https_never_becomes_http_and_the_token_reaches_only_its_hub(tmp_path: Path) -> None:
    seen: list[tuple[str, str | None]] = []

    def origin(request: httpx.Request) -> httpx.Response:
        seen.append((request.url.host, request.headers.get("authorization")))
        if request.url.path == "/down":
            return httpx.Response(302, headers={"location": "http://huggingface.co/x"})
        if request.url.host == "huggingface.co":
            return httpx.Response(302, headers={"location": "https://cdn.example/x"})
        return httpx.Response(200, content=stream(), headers={"content-length": str(len(DATA))})

    async def stream() -> AsyncIterator[bytes]:
        yield DATA

    async def main() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(origin)) as client:
            fetcher = Fetcher(client, token="hub-token")
            await fetcher.file(Wanted("https://huggingface.co/a", tmp_path / "m"), lambda *_: None)
            with pytest.raises(FetchFailed, match="https to http"):
                await fetcher.file(Wanted("https://other.example/down", tmp_path / "n"), lambda *_: None)

    anyio.run(main, backend="trio")
    assert seen[:2] == [("huggingface.co", "Bearer hub-token"), ("cdn.example", None)]
    assert seen[2] == ("other.example", None)


@pytest.mark.covers("E-184")
def test_a_download_larger_than_the_disk_is_refused_with_both_figures(tmp_path: Path) -> None:
    sizes = [1 << 60]

    def origin(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, headers={"content-length": str(sizes[0])}, content=b"")

    async def main() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(origin)) as client:
            with pytest.raises(FetchFailed, match=r"needs 1152921504606846976 bytes .* only \d+ bytes"):
                await Fetcher(client).file(Wanted("http://x/m", tmp_path / "m"), lambda *_: None)
            # It would fit, but for the twentieth of the disk that stays free.
            disk = os.statvfs(tmp_path)
            fits = disk.f_bavail * disk.f_frsize - disk.f_blocks * disk.f_frsize // 40
            sizes[0] = fits
            with pytest.raises(FetchFailed, match=rf"needs {fits} bytes and 5 % of the disk"):
                await Fetcher(client).file(Wanted("http://x/m", tmp_path / "m"), lambda *_: None)

    anyio.run(main, backend="trio")
