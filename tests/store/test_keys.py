"""What is kept of keys."""

import time

import anyio
import pytest
import sqlalchemy as sa

from llmgw.config.refusal import Refused
from llmgw.store import keys, tables, tree
from llmgw.store.loop import Store


def test_a_key_carries_the_ids_of_its_chain(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            [project] = await store.read(tree.all_projects)
            new = keys.NewKey(
                kind="service", hash="h", prefix="llmgw_abcdef", project_id=project.id, band="gold"
            )
            row = await store.run(keys.create, new)
            found = await store.read(keys.by_hash, "h")
            assert found is not None
            assert (found.org_id, found.team_id, found.project_id) == (
                project.org_id,
                project.team_id,
                project.id,
            )
            assert (found.key_id, found.band, found.profile, found.user_id) == (row.id, "gold", "chat", "")
            assert await store.read(keys.list_keys, project.id) == [row]
            assert await store.read(keys.list_keys, "prj-other") == []

    anyio.run(main, backend="trio")


def test_a_person_who_is_not_active_has_no_usable_key(address: str) -> None:
    def person(connection: sa.Connection, state: str) -> None:
        connection.execute(tables.users.delete().where(tables.users.c.id == "usr-none"))
        connection.execute(tables.users.update().values(state=state))

    async def main() -> None:
        async with Store(address) as store:
            user = {"id": "usr-1", "email": "ada@example.org", "created_at": 0.0}
            await store.run(lambda c: c.execute(tables.users.insert(), user))
            await store.run(keys.create, keys.NewKey(kind="member", hash="h", prefix="p", user_id="usr-1"))
            for state, usable in (
                ("active", True),
                ("suspended", False),
                ("pending", False),
                ("active", True),
            ):
                await store.run(person, state)
                assert (await store.read(keys.by_hash, "h") is not None) is usable

    anyio.run(main, backend="trio")


def test_an_owner_must_exist_and_a_hash_is_one_keys(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            with pytest.raises(sa.exc.IntegrityError):
                await store.run(
                    keys.create, keys.NewKey(kind="service", hash="h", prefix="p", project_id="prj-x")
                )
            await store.run(keys.create, keys.NewKey(kind="service", hash="h", prefix="p"))
            with pytest.raises(sa.exc.IntegrityError):
                await store.run(keys.create, keys.NewKey(kind="service", hash="h", prefix="p"))

    anyio.run(main, backend="trio")


def test_a_prefix_of_two_keys_is_refused_with_their_ids(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            ids = [
                (await store.run(keys.create, keys.NewKey(kind="service", hash=h, prefix="llmgw_same00"))).id
                for h in ("a", "b")
            ]
            with pytest.raises(Refused) as caught:
                await store.run(keys.revoke, "llmgw_same00", "ada")
            assert all(id in caught.value.sentence for id in ids)
            await store.run(keys.revoke, ids[0], "ada")
            assert [row.id for row in await store.read(keys.list_keys)] == [ids[1]]

    anyio.run(main, backend="trio")


def test_revoking_again_keeps_the_first_time_and_name(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            row = await store.run(keys.create, keys.NewKey(kind="service", hash="h", prefix="p"))
            first = await store.run(keys.revoke, row.id, "ada")
            assert await store.run(keys.revoke, row.id, "bob") == first
            assert not first.is_usable(time.time())

    anyio.run(main, backend="trio")
