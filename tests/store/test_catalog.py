"""Stored models and overrides."""

import anyio
import pytest

from llmgw.store import catalog
from llmgw.store.loop import Store


def test_definitions_are_put_counted_and_deleted(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            first = await store.run(catalog.put, "b", '{"x":1}', "ada")
            second = await store.run(catalog.put, "b", '{"x":2}', "bob")
            await store.run(catalog.put, "a", "{}", "ada")
            assert (first.version, second.version) == (1, 2)
            rows = await store.read(catalog.all)
            assert [(row.name, row.definition_json, row.version, row.by) for row in rows] == [
                ("a", "{}", 1, "ada"),
                ("b", '{"x":2}', 2, "bob"),
            ]
            assert rows[1] == second
            assert await store.run(catalog.delete, "b") is True
            assert await store.run(catalog.delete, "b") is False
            assert [row.name for row in await store.read(catalog.all)] == ["a"]

    anyio.run(main, backend="trio")


def test_overrides_change_one_field_and_leave_with_their_model(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            await store.run(catalog.put, "m", "{}", "ada")
            await store.run(catalog.put_override, "m", "scaling", '{"min":2}')
            await store.run(catalog.put_override, "m", "class", '"h100"')
            await store.run(catalog.put_override, "declared", "gate", "true")
            found = await store.read(catalog.overrides)
            assert found["m"] == catalog.OverrideRow("m", scaling='{"min":2}', class_='"h100"')
            await store.run(catalog.put_override, "m", "scaling", None)
            assert (await store.read(catalog.overrides))["m"].scaling is None
            await store.run(catalog.delete, "m")
            assert set(await store.read(catalog.overrides)) == {"declared"}
            await store.run(catalog.delete_overrides, "declared")
            assert await store.read(catalog.overrides) == {}
            with pytest.raises(ValueError, match="not a column"):
                await store.run(catalog.put_override, "m", "name", "x")

    anyio.run(main, backend="trio")
