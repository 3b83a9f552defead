"""Creating, listing and revoking keys with their audit events; and that no key's text is kept anywhere (T-11)."""

import logging
from pathlib import Path

import anyio
import pytest
import sqlalchemy as sa

from llmgw.config.refusal import Refused
from llmgw.people import keys
from llmgw.people.keys import Actor, KeyAsk
from llmgw.store import audit, epoch
from llmgw.store import keys as rows
from llmgw.store.loop import Store
from tests.store.postgres_server import PostgresServer

ME = Actor("ada", "cli")


def _run(fn):
    return anyio.run(fn, backend="trio")


def _dump(connection: sa.Connection) -> str:
    """Return every value of every table."""
    tables = sa.MetaData()
    tables.reflect(connection)
    return "\n".join(
        str(row) for table in tables.sorted_tables for row in connection.execute(sa.select(table))
    )


@pytest.mark.covers("T-11")
def test_the_text_of_a_key_is_kept_nowhere(
    address: str, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    caplog.set_level(logging.DEBUG)

    async def main() -> tuple[str, str]:
        async with Store(address) as store:
            minted = await store.run(keys.create, KeyAsk(name="ci"), ME)
            await store.read(rows.by_hash, keys.digest(minted.text))
            await store.run(keys.revoke, minted.text, ME)
            with pytest.raises(Refused):
                await store.run(keys.revoke, minted.text[:-1] + "!", ME)
            [row] = await store.read(_every)
            assert (row.hash, row.prefix) == (keys.digest(minted.text), minted.text[:12])
            expected = (
                "id kind hash prefix name project_id user_id created_at created_by expires_at revoked_at revoked_by "
                "last_used_at rotated_from band profile"
            )
            assert set(row.__struct_fields__) == set(expected.split())
            return minted.text, await store.read(_dump)

    text, dump = _run(main)
    everything = [dump, caplog.text]
    if address.startswith("postgresql"):
        server: PostgresServer = request.getfixturevalue("postgres")
        everything.append(server.log())
        assert keys.digest(text) in server.log()
    else:
        everything += [file.read_bytes().decode("latin-1") for file in Path(address).parent.iterdir()]
    assert keys.digest(text) in dump
    for kept in everything:
        assert text not in kept
        assert text[13:] not in kept


def _every(connection: sa.Connection) -> list[rows.KeyRow]:
    return keys.list_keys(connection, every=True)


def test_making_and_revoking_are_audited_and_move_the_epoch_in_one_transaction(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            begin = await store.read(epoch.read)
            minted = await store.run(keys.create, KeyAsk(name="ci", ttl_s=3600), ME)
            ended = await store.run(keys.revoke, minted.row.prefix, ME)
            again = await store.run(keys.revoke, minted.row.id, ME)
            assert ended == again
            assert ended.revoked_by == "ada"
            assert await store.read(epoch.read) == begin + 2
            events = await store.read(audit.query, audit.AuditQuery())
            assert [(e.action, e.actor, e.source, e.target, e.result) for e in reversed(events)] == [
                (action, "ada", "cli", f"key:{minted.row.id}", "ok")
                for action in ("key.create", "key.revoke", "key.revoke")
            ]
            assert [bool(e.after) for e in reversed(events)] == [True, True, False]

    _run(main)


def test_what_may_not_be_is_refused_and_nothing_is_written(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            before = await store.read(_dump)
            for ask, status in (
                (KeyAsk(project="nowhere"), 404),
                (KeyAsk(ttl_s=59), 400),
                (KeyAsk(name="x" * 129), 400),
                (KeyAsk(name="a\nb"), 400),
            ):
                with pytest.raises(Refused) as caught:
                    await store.run(keys.create, ask, ME)
                assert caught.value.status == status
            for named in ("key-none", "llmgw_zzzzzz", keys.new_key(), keys.new_key()[:-1]):
                with pytest.raises(Refused):
                    await store.run(keys.revoke, named, ME)
            assert await store.read(_dump) == before

    _run(main)


def test_a_refusal_never_repeats_a_keys_text(address: str) -> None:
    async def main() -> None:
        text = keys.new_key()
        async with Store(address) as store:
            for named in (text, text[:-1], text + "x"):
                with pytest.raises(Refused) as caught:
                    await store.run(keys.revoke, named, ME)
                assert text[12:40] not in caught.value.sentence

    _run(main)


def test_listing_hides_what_is_over_unless_asked(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            kept = await store.run(keys.create, KeyAsk(name="kept"), ME)
            ended = await store.run(keys.create, KeyAsk(name="ended"), ME)
            await store.run(keys.revoke, ended.row.id, ME)
            assert [row.id for row in await store.read(keys.list_keys, "default")] == [kept.row.id]
            assert {row.id for row in await store.read(_every)} == {kept.row.id, ended.row.id}

    _run(main)
