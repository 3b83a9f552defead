"""The weights cache: one download for many shards, sets, names, and downloads through a node."""

from __future__ import annotations

import contextlib
import hashlib
import json
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
import trio

from llmgw.agent.fetch import FetchFailed
from llmgw.agent.weights import Weights
from llmgw.config.agent import WeightSettings
from llmgw.testing.tiny_gguf import tiny_gguf
from llmgw.wire.agent import ShardState, ShardStatus
from tests.agent.file_server import Site, serving
from tests.agent.node_rig import node_config, run, running_node, start_command, stop_command
from tests.control.link_rig import papers

DATA = bytes(range(256)) * 12_000


def _run(tmp_path: Path, site: Site, main: Callable[[Weights, Site], Awaitable[None]]) -> None:
    async def inside() -> None:
        with serving(site):
            async with anyio.create_task_group() as tasks:
                with anyio.fail_after(60):
                    await main(Weights(tmp_path, WeightSettings(), tasks), site)
                tasks.cancel_scope.cancel()

    anyio.run(inside, backend="trio")


def _ignore(_done: int, _total: int) -> None:
    pass


@pytest.mark.covers("E-182", "E-188")
def test_shards_starting_together_share_one_download_and_all_hear_its_progress() -> None:
    async def main(folder: Path) -> None:
        model = tiny_gguf("chat")
        site = Site(files={"/m.gguf": model}, gate=threading.Event(), gate_bytes=400_000)
        with serving(site):
            async with running_node(node_config(folder)) as rig:
                for shard_id in ("m-1-0", "m-2-0"):
                    rig.command(start_command(site.base + "/m.gguf", shard_id))
                for shard_id in ("m-1-0", "m-2-0"):
                    with anyio.fail_after(20):
                        while not any(
                            isinstance(one, ShardStatus)
                            and one.shard_id == shard_id
                            and one.fetch is not None
                            and one.fetch.total_bytes == len(model)
                            for one in rig.said
                        ):
                            await anyio.sleep(0.02)
                assert site.gate is not None
                site.gate.set()
                for shard_id in ("m-1-0", "m-2-0"):
                    await rig.told(ShardState.READY, shard_id=shard_id)
                    assert rig.states(shard_id)[-3:] == [ShardState.FETCHING, ShardState.STARTING, ShardState.READY]
                assert len(site.asked) == 1
                (cached,) = (await rig.node.heartbeat(1)).weights
                assert cached.source == site.base + "/m.gguf" and cached.in_use and cached.bytes == len(model)

    run(main)


@pytest.mark.covers("E-186")
def test_a_stop_cancels_the_download_when_nobody_else_waits_for_it() -> None:
    async def main(folder: Path) -> None:
        site = Site(files={"/m.gguf": DATA}, gate=threading.Event(), gate_bytes=100)
        with serving(site):
            async with running_node(node_config(folder)) as rig:
                rig.command(start_command(site.base + "/m.gguf"))
                await rig.told(ShardState.FETCHING)
                rig.command(stop_command())
                await rig.told(ShardState.STOPPED)
                assert rig.node.shards.all() == []

    run(main)


@pytest.mark.covers("E-102")
def test_a_download_that_fails_fails_the_shard_in_words_and_an_adapters_names_it() -> None:
    async def main(folder: Path) -> None:
        from llmgw.wire.agent import LoraAdapter

        with serving(Site(files={"/m.gguf": tiny_gguf("chat")})) as site:
            async with running_node(node_config(folder)) as rig:
                rig.command(start_command(site.base + "/none.gguf"))
                status = await rig.told(ShardState.FAILED)
                assert "answers 404" in status.error
                adapters = [LoraAdapter(name="law", source=site.base + "/none.gguf")]
                rig.command(start_command(site.base + "/m.gguf", "m-2-0", adapters=adapters))
                status = await rig.told(ShardState.FAILED, shard_id="m-2-0")
                assert status.error.startswith("adapter law: ")

    run(main)


@pytest.mark.covers("E-181")
def test_a_file_is_kept_under_its_sources_hash_and_taken_up_where_it_was(tmp_path: Path) -> None:
    async def main(weights: Weights, site: Site) -> None:
        source = f"{site.base}/dir/m.gguf#sha256={hashlib.sha256(DATA).hexdigest()}"
        name = f"{hashlib.sha256(source.encode()).hexdigest()[:16]}-m.gguf"
        (tmp_path / f"{name}.part").write_bytes(DATA[:1000])
        (tmp_path / f"{name}.part.tag").write_text('"v1"')
        assert weights.needs_fetch(source)
        assert await weights.fetch(source, _ignore) == str(tmp_path / name)
        assert (tmp_path / name).read_bytes() == DATA and site.asked[0][1]["range"] == "bytes=1000-"
        assert not weights.needs_fetch(source) and await weights.fetch(source, _ignore) == str(tmp_path / name)
        assert len(site.asked) == 1
        folder = await weights.fetch(f"{site.base}/set/", _ignore)
        assert folder.endswith("-set") and (Path(folder) / "a").is_file()

    listed = json.dumps([{"name": "a", "bytes": 1}]).encode()
    _run(tmp_path, Site(files={"/dir/m.gguf": DATA, "/set/llmgw-set.json": listed, "/set/a": b"x"}), main)


@pytest.mark.covers("E-183", "E-187")
def test_a_set_is_fetched_whole_four_at_a_time_and_a_wrong_member_fails_it(tmp_path: Path) -> None:
    files = {f"f{number}.safetensors": bytes([number]) * 1000 for number in range(8)}
    members = [
        {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
    ]
    served = {f"/s/{name}": data for name, data in files.items()}

    async def good(weights: Weights, site: Site) -> None:
        told: list[tuple[int, int]] = []
        folder = Path(await weights.fetch(f"{site.base}/s/", lambda done, total: told.append((done, total))))
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
        assert site.most_at_once == 4
        assert told[-1] == (8000, 8000) and folder.stat().st_mode & 0o777 == 0o755

    listed = {**served, "/s/llmgw-set.json": json.dumps(members).encode()}
    _run(tmp_path / "a", Site(files=listed, together=threading.Barrier(4)), good)

    async def bad(weights: Weights, site: Site) -> None:
        with pytest.raises(FetchFailed, match="checksum"):
            await weights.fetch(f"{site.base}/s/", _ignore)
        assert not list((tmp_path / "b").glob("*-s"))

    served["/s/f3.safetensors"] = b"?" * 1000
    _run(tmp_path / "b", Site(files={**served, "/s/llmgw-set.json": json.dumps(members).encode()}), bad)

    async def single(weights: Weights, site: Site) -> None:
        with pytest.raises(FetchFailed, match="checksum"):
            await weights.fetch(f"{site.base}/x#sha256={'0' * 64}", _ignore)
        assert [path.name for path in (tmp_path / "c").iterdir()] == []

    _run(tmp_path / "c", Site(files={"/x": b"x"}), single)


@pytest.mark.covers("E-183")
@pytest.mark.parametrize("name", ["../x", "a/b", "..", "", "a\\b", "x.part"])
def test_a_set_may_not_name_a_file_outside_itself(tmp_path: Path, name: str) -> None:
    async def main(weights: Weights, site: Site) -> None:
        with pytest.raises(FetchFailed, match="no plain file name"):
            await weights.fetch(f"{site.base}/s/", _ignore)

    _run(tmp_path, Site(files={"/s/llmgw-set.json": json.dumps([{"name": name}]).encode()}), main)


@pytest.mark.covers("E-182")
def test_a_second_waiter_goes_on_when_the_first_leaves(tmp_path: Path) -> None:
    async def main(weights: Weights, site: Site) -> None:
        source, paths = f"{site.base}/m", []

        async def wait(scope: anyio.CancelScope) -> None:
            with scope:
                paths.append(await weights.fetch(source, _ignore))

        scopes = [anyio.CancelScope(), anyio.CancelScope()]
        async with anyio.create_task_group() as tasks:
            for scope in scopes:
                tasks.start_soon(wait, scope)
            with anyio.fail_after(10):
                while not site.asked:
                    await anyio.sleep(0.01)
            scopes[0].cancel()
            assert site.gate is not None
            site.gate.set()
        assert len(paths) == 1 and len(site.asked) == 1

    _run(tmp_path, Site(files={"/m": DATA}, gate=threading.Event(), gate_bytes=100), main)


@pytest.mark.covers("E-180")
def test_a_path_must_exist_and_a_hubs_id_is_passed_on(tmp_path: Path) -> None:
    async def main(weights: Weights, _site: Site) -> None:
        assert await weights.fetch(str(tmp_path), _ignore) == str(tmp_path)
        assert await weights.fetch("org/repo", _ignore) == "org/repo"
        with pytest.raises(FetchFailed, match="does not exist on this node"):
            await weights.fetch("/no/such/file", _ignore)

    _run(tmp_path, Site(), main)


@pytest.mark.covers("E-185")
def test_a_proxy_is_the_settings_one_and_never_the_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def direct(weights: Weights, site: Site) -> None:
        assert await weights.fetch(f"{site.base}/m", _ignore)

    _run(tmp_path / "a", Site(files={"/m": DATA}), direct)

    async def through() -> None:
        with serving(Site(files={"http://origin.invalid/m": DATA})) as proxy:
            async with anyio.create_task_group() as tasks:
                weights = Weights(tmp_path / "b", WeightSettings(proxy=proxy.base), tasks)
                with anyio.fail_after(60):
                    path = await weights.fetch("http://origin.invalid/m", _ignore)
                tasks.cancel_scope.cancel()
            assert Path(path).read_bytes() == DATA
            assert [asked for asked, _ in proxy.asked] == ["http://origin.invalid/m"]

    anyio.run(through, backend="trio")


@pytest.mark.covers("E-185")
def test_an_origin_whose_certificate_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    files = papers().server
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(files.cert, files.key)

    async def shake_hands(stream: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            await trio.SSLStream(stream, trust, server_side=True).do_handshake()

    async def main() -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, shake_hands, listeners)
            async with anyio.create_task_group() as tasks:
                weights = Weights(tmp_path, WeightSettings(), tasks)
                with trio.fail_after(60), pytest.raises(FetchFailed, match="certificate"):
                    await weights.fetch(f"https://127.0.0.1:{listeners[0].socket.getsockname()[1]}/set/", _ignore)
                tasks.cancel_scope.cancel()
            nursery.cancel_scope.cancel()

    trio.run(main)
