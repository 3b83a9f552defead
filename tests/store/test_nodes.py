"""Nodes, cordons, labels."""

import anyio

from llmgw.store import nodes, tables
from llmgw.store.loop import Store


def test_a_node_is_remembered_once_and_only_a_change_is_written(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            assert await store.run(nodes.remember, "n1", "10.0.0.1") is True
            joined = (await store.read(nodes.known))[0].joined_at
            assert await store.run(nodes.remember, "n1", "10.0.0.1") is False
            assert await store.run(nodes.remember, "n1", "10.0.0.2") is True
            assert await store.read(nodes.known) == [nodes.NodeRow("n1", "10.0.0.2", joined)]

    anyio.run(main, backend="trio")


def test_cordons_and_labels_come_and_go_and_leave_with_their_node(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            await store.run(nodes.remember, "n1", "")
            await store.run(nodes.set_cordon, "n1", "ada")
            assert (await store.read(nodes.cordons))["n1"].by == "ada"
            await store.run(nodes.set_cordon, "n1", None)
            await store.run(nodes.set_cordon, "n1", None)
            assert await store.read(nodes.cordons) == {}
            await store.run(lambda c: nodes.set_cordon(c, "n1", "bob", drain=True))
            assert (await store.read(nodes.cordons))["n1"].drain is True
            await store.run(nodes.set_label, "n1", "rack", "7")
            await store.run(nodes.set_label, "n1", "rack", "8")
            assert await store.read(nodes.labels) == {"n1": {"rack": "8"}}
            await store.run(nodes.set_label, "n1", "rack", None)
            assert await store.read(nodes.labels) == {}
            assert await store.run(nodes.forget, "n1") is True
            assert await store.run(nodes.forget, "n1") is False
            assert await store.read(nodes.cordons) == {}

    anyio.run(main, backend="trio")


def test_holds_are_read_by_domain(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            row = {"domain": "row-a", "reason": "chiller", "by": "ada", "at": 5.0, "drain": True}
            await store.run(lambda c: c.execute(tables.facility_holds.insert(), row))
            assert await store.read(nodes.holds) == [nodes.HoldRow("row-a", "chiller", "ada", 5.0, True)]

    anyio.run(main, backend="trio")
