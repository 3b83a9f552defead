"""Versions of the cluster settings."""

import hashlib

import anyio
import pytest
import sqlalchemy as sa

from llmgw.config.refusal import Refused
from llmgw.store import settings, tables
from llmgw.store.loop import Store


@pytest.mark.covers("C-59")
def test_versions_are_appended_as_written_and_the_newest_five_hundred_stay(address: str) -> None:
    text = "# why: the lab\nrouter:\n  scrape_interval: 2s   # fast\n\n"

    def many(connection: sa.Connection) -> None:
        for number in range(504):
            settings.append(connection, f"{text}# {number}\n", "ada", "note")

    def kept(connection: sa.Connection) -> list[tuple[int, str]]:
        query = sa.select(tables.cluster_settings.c.version, tables.cluster_settings.c.document)
        return [tuple(row) for row in connection.execute(query.order_by("version"))]

    async def main() -> None:
        async with Store(address) as store:
            assert await store.read(settings.current) is None
            first = await store.run(settings.append, text, "ada", "first")
            assert (first.version, first.document, first.actor, first.note) == (1, text, "ada", "first")
            assert first.sha256 == hashlib.sha256(text.encode()).hexdigest()
            assert await store.read(settings.current) == first
            await store.run(many)
            rows = await store.read(kept)
            assert [number for number, _ in rows] == list(range(6, 506))
            assert rows[-1] == (505, f"{text}# 503\n")
            assert rows[0] == (6, f"{text}# 4\n")
            assert (await store.read(settings.current)).version == await store.read(settings.version) == 505

    anyio.run(main, backend="trio")


def test_a_change_made_from_an_old_version_is_refused(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            await store.run(settings.append, "a: 1\n", "ada")
            await store.run(lambda c: settings.append(c, "a: 2\n", "bob", after=1))
            with pytest.raises(Refused, match="at version 2, not 1"):
                await store.run(lambda c: settings.append(c, "a: 3\n", "ada", after=1))
            assert (await store.read(settings.current)).document == "a: 2\n"

    anyio.run(main, backend="trio")
