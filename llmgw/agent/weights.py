"""The weights cache: what is here, what is being fetched, and for whom (21 section 9).

Shards that start together want the same file. One download serves all of them (E-182): a flight runs in a task of its
own, every waiter hears its progress, and it is cancelled when the last waiter has gone.
"""

import os
import shutil
import ssl
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
import certifi
import httpx
import msgspec
from anyio import to_thread

from llmgw.agent.fetch import Fetcher, FetchFailed, Progress, Wanted
from llmgw.agent.weight_source import BadSource, RemoteSource, remote_source
from llmgw.config.agent import WeightSettings
from llmgw.wire.agent import CachedWeight

SET_LIST = "llmgw-set.json"
_SET_LIST_BYTES = 4 * 1024 * 1024
_SET_AT_ONCE = 4
_SOURCES = ".sources"
_UNFINISHED = (".part", ".tag", ".partdir")


class SetMember(msgspec.Struct, frozen=True):
    """One file of a set, as the mirror lists it (E-183)."""

    name: str
    bytes: int = 0
    sha256: str = ""


class _Flight:
    """One running download: its progress, who listens, and how it ended."""

    def __init__(self) -> None:
        self.listeners: list[Progress] = []
        self.done_bytes = self.total_bytes = 0
        self.failure = ""
        self.ended = anyio.Event()
        self.scope = anyio.CancelScope()

    def progress(self, done_bytes: int, total_bytes: int) -> None:
        """Tell every listener."""
        self.done_bytes, self.total_bytes = done_bytes, total_bytes
        for listener in self.listeners:
            listener(done_bytes, total_bytes)


class Weights:
    """The cache in one directory. Downloads run in `tasks`, which outlives whoever asked for them."""

    def __init__(self, directory: Path, settings: WeightSettings, tasks: anyio.abc.TaskGroup) -> None:
        self._directory = directory
        self._settings = settings
        self._tasks = tasks
        self._flights: dict[str, _Flight] = {}

    def needs_fetch(self, source: str) -> bool:
        """Return whether a source is to be downloaded and not here yet. Raises BadSource."""
        remote = remote_source(source)
        return remote is not None and not (self._directory / remote.cache_name).exists()

    async def fetch(self, source: str, progress: Progress) -> str:
        """Return what to give the engine for a source: a path here, or the source itself for a hub's id.

        Raises FetchFailed and BadSource. Cancelling it leaves the download to the other waiters, if any.
        """
        remote = remote_source(source)
        if remote is None:
            if source.startswith("/") and not os.path.exists(source):
                raise FetchFailed(f"{source} does not exist on this node, and a path is never fetched")
            return source
        path = self._directory / remote.cache_name
        if not path.exists():
            await self._join_flight(remote, progress)
        return str(path)

    async def _join_flight(self, remote: RemoteSource, progress: Progress) -> None:
        while (flight := self._flights.get(remote.source)) is not None and flight.scope.cancel_called:
            await flight.ended.wait()
        if flight is None:
            flight = self._flights[remote.source] = _Flight()
            self._tasks.start_soon(self._fly, remote, flight)
        flight.listeners.append(progress)
        progress(flight.done_bytes, flight.total_bytes)
        try:
            await flight.ended.wait()
        finally:
            flight.listeners.remove(progress)
            if not flight.listeners and not flight.ended.is_set():
                flight.scope.cancel()
        if flight.failure:
            raise FetchFailed(flight.failure)
        if flight.scope.cancelled_caught:
            raise FetchFailed("the download was cancelled")

    async def _fly(self, remote: RemoteSource, flight: _Flight) -> None:
        try:
            with flight.scope:
                async with self._fetcher() as fetcher:
                    await self._download(fetcher, remote, flight.progress)
        except FetchFailed as failed:
            flight.failure = failed.sentence
        except OSError as error:
            flight.failure = f"{self._directory} cannot be written: {error.strerror or error}"
        finally:
            del self._flights[remote.source]
            flight.ended.set()

    @asynccontextmanager
    async def _fetcher(self) -> AsyncIterator[Fetcher]:
        proxy = self._settings.proxy or None
        async with httpx.AsyncClient(trust_env=False, proxy=proxy, verify=_trust(), timeout=60.0) as client:
            yield Fetcher(client, _token(self._settings.hf_token_file))

    async def _download(self, fetcher: Fetcher, remote: RemoteSource, progress: Progress) -> None:
        self._directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        path = self._directory / remote.cache_name
        if remote.is_set:
            await _fetch_set(fetcher, remote, path, progress)
        else:
            await fetcher.file(Wanted(remote.url, path, remote.sha256), progress)
        self._note_source(remote)

    def _note_source(self, remote: RemoteSource) -> None:
        notes = self._directory / _SOURCES
        notes.mkdir(mode=0o755, exist_ok=True)
        (notes / remote.cache_name).write_text(remote.source, encoding="utf-8")

    def cached(self, in_use: Collection[str]) -> list[CachedWeight]:
        """Return what the cache holds; `in_use` are paths that shards were started with. Reads the disk."""
        found: list[CachedWeight] = []
        for path in sorted(self._directory.glob("*")) if self._directory.is_dir() else []:
            if path.name.startswith(".") or path.name.endswith(_UNFINISHED):
                continue
            used = any(Path(one) == path or path in Path(one).parents for one in in_use)
            found.append(CachedWeight(source=self._source_of(path), path=str(path), bytes=_size(path), in_use=used))
        return found

    def _source_of(self, path: Path) -> str:
        try:
            return (self._directory / _SOURCES / path.name).read_text(encoding="utf-8")
        except OSError:
            return ""

    def remove(self, paths: Sequence[str], in_use: Collection[str]) -> list[str]:
        """Delete what may be deleted of `paths`; return a sentence for each that may not (P-62)."""
        refused: list[str] = []
        held = {cached.path: cached for cached in self.cached(in_use)}
        for path in paths:
            cached = held.get(path)
            if cached is None or Path(path).is_symlink():
                refused.append(f"{path} is not removed: it is no model file of the cache {self._directory}")
            elif cached.in_use:
                refused.append(f"{path} is not removed: a running shard uses it")
            else:
                _delete(Path(path))
                with suppress(FileNotFoundError):
                    (self._directory / _SOURCES / Path(path).name).unlink()
        return refused

    def disk_bytes(self) -> tuple[int, int]:
        """Return total and free bytes of the cache's disk, (0, 0) when there is no such directory."""
        try:
            disk = os.statvfs(self._directory)
        except OSError:
            return 0, 0
        return disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize


async def _fetch_set(fetcher: Fetcher, remote: RemoteSource, path: Path, progress: Progress) -> None:
    """Fetch every member into `<name>.partdir`, four at a time, then rename the directory."""
    members = _members(await fetcher.document(remote.url + SET_LIST, _SET_LIST_BYTES), remote)
    directory = path.with_name(path.name + ".partdir")
    directory.mkdir(mode=0o755, exist_ok=True)
    done = dict.fromkeys((member.name for member in members), 0)
    total_bytes = sum(member.bytes for member in members)
    limiter = anyio.CapacityLimiter(_SET_AT_ONCE)
    failures: list[FetchFailed] = []

    async def one(member: SetMember, tasks: anyio.abc.TaskGroup) -> None:
        def report(done_bytes: int, _total: int) -> None:
            done[member.name] = done_bytes
            progress(sum(done.values()), total_bytes)

        wanted = Wanted(remote.url + member.name, directory / member.name, member.sha256.lower(), member.bytes)
        async with limiter:
            try:
                if not wanted.path.exists():
                    await fetcher.file(wanted, report)
                report(member.bytes, 0)
            except FetchFailed as failed:
                failures.append(failed)
                tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for member in members:
            tasks.start_soon(one, member, tasks)
    if failures:
        raise failures[0]
    await to_thread.run_sync(_sync_directory, directory)
    directory.rename(path)


def _members(document: bytes, remote: RemoteSource) -> list[SetMember]:
    where = remote.url + SET_LIST
    try:
        members = msgspec.json.decode(document, type=list[SetMember])
    except (msgspec.MsgspecError, ValueError) as error:
        raise FetchFailed(f"{where} is not a list of {{name, bytes, sha256}}: {error}") from None
    names = [member.name for member in members]
    for name in names:
        if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name or name.endswith(_UNFINISHED):
            raise FetchFailed(f"{where} names a file {name[:80]!r}, which is no plain file name")
    if not members or len(set(names)) != len(names):
        raise FetchFailed(f"{where} {'names a file twice' if members else 'names no file'}")
    return members


def _trust() -> ssl.SSLContext:
    """The system's authorities (SSL_CERT_FILE obeyed), or the ones that come with us where the system has none."""
    paths = ssl.get_default_verify_paths()
    return ssl.create_default_context(cafile=None if paths.cafile or paths.capath else certifi.where())


def _token(file: str) -> str:
    if not file:
        return ""
    try:
        return Path(file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FetchFailed(f"weights.hf_token_file {file} cannot be read: {error}") from None


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size if path.exists() else 0
    return sum(entry.stat().st_size for entry in path.iterdir() if entry.is_file())


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _sync_directory(path: Path) -> None:
    path.chmod(0o755)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


__all__ = ["SET_LIST", "BadSource", "FetchFailed", "SetMember", "Weights"]
