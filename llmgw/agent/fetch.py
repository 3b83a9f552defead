"""Downloading one file so that a broken line costs only what was not yet received (E-181..E-186).

A download goes to `<name>.part` and is renamed when whole, so a file under its final name is complete. `.part` is
taken up again with a Range request guarded by If-Range: a file that changed at its origin starts anew instead of
becoming two halves of different files. Redirects are followed by hand, since https must never become http and a token
must reach one host only.
"""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx
from anyio import to_thread

from llmgw.agent.weight_source import HUB_HOST

_MAX_REDIRECTS = 5
_ATTEMPTS = 6
_FIRST_PAUSE_S = 0.5
_TIMEOUT = httpx.Timeout(60.0, connect=10.0)
_WRITE_BYTES = 1 << 20
_RETRIED_STATUS = (408, 425, 429)
_REDIRECTS = (301, 302, 303, 307, 308)

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all (0 = unknown)."""


class FetchFailed(Exception):
    """A download that will not succeed; the sentence says what the origin answered."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class _Broken(Exception):
    """The line broke or the origin is unwell: worth another try."""


@dataclass(frozen=True)
class Wanted:
    """A file to fetch to `path`. `sha256` "" and `size_bytes` 0 when not known beforehand."""

    url: str
    path: Path
    sha256: str = ""
    size_bytes: int = 0


class Fetcher:
    """Downloads with one client's settings. `token` goes to the model hub's host alone."""

    def __init__(self, client: httpx.AsyncClient, token: str = "", first_pause_s: float = _FIRST_PAUSE_S) -> None:
        self._client = client
        self._token = token
        self._first_pause_s = first_pause_s

    async def file(self, wanted: Wanted, progress: Progress) -> None:
        """Fetch a whole, verified file to its path. Raises FetchFailed. Cancelled, it leaves its `.part` to go on from."""
        part = _Part(wanted.path)
        failures, pause_s = 0, self._first_pause_s
        while True:
            before = part.size()
            try:
                await self._attempt(wanted, part, progress)
                break
            except (_Broken, httpx.TransportError) as error:
                failures = 1 if part.size() > before else failures + 1
                if failures >= _ATTEMPTS:
                    raise FetchFailed(f"{wanted.url} broke off {failures} times in a row: {_words(error)}") from None
            await anyio.sleep(pause_s if failures > 1 else self._first_pause_s)
            pause_s = min(pause_s * 2, 30.0)
        await to_thread.run_sync(part.finish, wanted)

    async def document(self, url: str, limit_bytes: int) -> bytes:
        """Fetch a small document. Raises FetchFailed."""
        try:
            answer = await self._open(url, {})
            try:
                _refuse_status(answer, url)
                body = bytearray()
                async for chunk in answer.aiter_raw():
                    body += chunk
                    if len(body) > limit_bytes:
                        raise FetchFailed(f"{url} is larger than {limit_bytes} bytes")
                return bytes(body)
            finally:
                await answer.aclose()
        except (_Broken, httpx.TransportError) as error:
            raise FetchFailed(f"{url} cannot be fetched: {_words(error)}") from None

    async def _attempt(self, wanted: Wanted, part: "_Part", progress: Progress) -> None:
        held = part.size()
        if wanted.size_bytes and held >= wanted.size_bytes:
            held = part.restart() if held > wanted.size_bytes else held
            if held:
                return
        validator = part.validator()
        headers = {"Range": f"bytes={held}-", **({"If-Range": validator} if validator else {})} if held else {}
        answer = await self._open(wanted.url, headers)
        try:
            if answer.status_code == 416 and held and _range_total(answer) == held:
                return
            if answer.status_code == 416:
                part.restart()
                raise _Broken("its range was refused")
            _refuse_status(answer, wanted.url)
            if held and not _continues(answer, held):
                held = part.restart()
            await self._receive(answer, wanted, part, held, progress)
        finally:
            await answer.aclose()

    async def _receive(
        self, answer: httpx.Response, wanted: Wanted, part: "_Part", held: int, progress: Progress
    ) -> None:
        length = answer.headers.get("content-length", "")
        total = held + int(length) if length.isdigit() else wanted.size_bytes
        await to_thread.run_sync(_check_space, part.path.parent, total - held)
        part.remember(answer.headers.get("etag") or answer.headers.get("last-modified") or "")
        progress(held, total)
        buffer = bytearray()
        with part.path.open("ab") as file:
            try:
                async for chunk in answer.aiter_raw():
                    buffer += chunk
                    held += len(chunk)
                    if total and held > total:
                        raise FetchFailed(f"{wanted.url} sends more than the {total} bytes it announced")
                    if len(buffer) >= _WRITE_BYTES:
                        await _write(file.fileno(), buffer)
                    progress(held, total)
            finally:
                if buffer:
                    _write_all(file.fileno(), bytes(buffer))
        if total and held < total:
            raise _Broken(f"it ended after {held} of {total} bytes")
        progress(held, total or held)

    async def _open(self, url: str, headers: dict[str, str]) -> httpx.Response:
        """Send a GET and follow redirects; the body is still to be read."""
        at = httpx.URL(url)
        for _ in range(_MAX_REDIRECTS + 1):
            sent = {"Accept-Encoding": "identity", **headers}
            if self._token and at.scheme == "https" and at.host == HUB_HOST:
                sent["Authorization"] = f"Bearer {self._token}"
            answer = await self._client.send(self._client.build_request("GET", at, headers=sent), stream=True)
            if answer.status_code not in _REDIRECTS:
                return answer
            await answer.aclose()
            at = _redirected(at, answer.headers.get("location", ""), url)
        raise FetchFailed(f"{url} redirects more than {_MAX_REDIRECTS} times")


def _redirected(at: httpx.URL, location: str, url: str) -> httpx.URL:
    try:
        target = at.join(location)
    except httpx.InvalidURL:
        raise FetchFailed(f"{url} redirects to an address that is none") from None
    if not location or target.scheme not in ("http", "https"):
        raise FetchFailed(f"{url} redirects to an address that is none")
    if at.scheme == "https" and target.scheme == "http":
        raise FetchFailed(f"{url} redirects from https to http, which is refused")
    return target


def _refuse_status(answer: httpx.Response, url: str) -> None:
    status = answer.status_code
    if status in (200, 206):
        return
    if status >= 500 or status in _RETRIED_STATUS:
        raise _Broken(f"it answers {status}")
    raise FetchFailed(f"{url} answers {status} {answer.reason_phrase}".rstrip())


def _continues(answer: httpx.Response, held: int) -> bool:
    """Return whether a 206 goes on exactly where we stopped."""
    return answer.status_code == 206 and answer.headers.get("content-range", "").startswith(f"bytes {held}-")


def _range_total(answer: httpx.Response) -> int:
    total = answer.headers.get("content-range", "").rpartition("/")[2]
    return int(total) if total.isdigit() else -1


def _words(error: BaseException) -> str:
    """Return what went wrong, from the innermost cause that has words: a certificate's fault comes as one without."""
    words, cause = "", error
    while cause is not None:
        words, cause = str(cause) or words, cause.__cause__ or cause.__context__
    return words or type(error).__name__


async def _write(fd: int, buffer: bytearray) -> None:
    """Write what is held on a thread, then forget it; not cancelled in between, so nothing is written twice."""
    data = bytes(buffer)
    buffer.clear()
    with anyio.CancelScope(shield=True):
        await to_thread.run_sync(_write_all, fd, data)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _check_space(directory: Path, needed_bytes: int) -> None:
    """Refuse a download that would leave less than 5 % of the disk free (E-184)."""
    if needed_bytes <= 0:
        return
    disk = os.statvfs(directory)
    free_bytes, reserve_bytes = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize // 20
    if needed_bytes + reserve_bytes > free_bytes:
        raise FetchFailed(
            f"no room in {directory}: the download needs {needed_bytes} bytes and 5 % of the disk "
            f"({reserve_bytes} bytes) stays free, but only {free_bytes} bytes are; remove model files or add space"
        )


class _Part:
    """`<name>.part` and `<name>.part.tag`, which keeps the origin's validator."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(path.name + ".part")
        self._tag = path.with_name(path.name + ".part.tag")

    def size(self) -> int:
        """Return the bytes held so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def restart(self) -> int:
        """Forget what is held; returns 0."""
        with suppress(FileNotFoundError):
            self.path.unlink()
        with suppress(FileNotFoundError):
            self._tag.unlink()
        return 0

    def validator(self) -> str:
        """Return the origin's ETag or Last-Modified of what is held, "" when it gave none that may be compared."""
        try:
            tag = self._tag.read_text(encoding="latin-1")
        except FileNotFoundError:
            return ""
        return "" if tag.startswith("W/") else tag

    def remember(self, validator: str) -> None:
        """Keep the validator of what is being received."""
        self._tag.write_text(validator, encoding="latin-1", errors="replace")

    def finish(self, wanted: Wanted) -> None:
        """Verify, sync and rename. Raises FetchFailed, having removed the file, when its checksum or size is wrong."""
        if not self.path.exists():
            self.path.touch()
        size = self.size()
        if wanted.size_bytes and size != wanted.size_bytes:
            self.restart()
            raise FetchFailed(f"checksum: {wanted.url} has {size} bytes, its list says {wanted.size_bytes}")
        if wanted.sha256:
            with self.path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if digest != wanted.sha256:
                self.restart()
                raise FetchFailed(f"checksum: {wanted.url} has sha256 {digest}, expected {wanted.sha256}")
        with self.path.open("rb+") as file:
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        self.path.rename(wanted.path)
        with suppress(FileNotFoundError):
            self._tag.unlink()
