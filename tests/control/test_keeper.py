"""The leader's memory in a real store: kept with its audit event, read back by the next leader, fenced by the term."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from llmgw.config.refusal import Refused
from llmgw.control.keeper import StoredModel, StoreKeeper
from llmgw.store import audit
from llmgw.store.loop import Store
from tests.control.leader_rig import AUDIT


def keep(tmp_path: Path, scene: Callable[[StoreKeeper, Store], Awaitable[None]]) -> None:
    async def main() -> None:
        async with Store(str(tmp_path / "llmgw.db")) as store:
            await scene(StoreKeeper(store), store)

    trio.run(main)


def test_what_one_leader_kept_the_next_one_reads(tmp_path: Path) -> None:
    async def scene(keeper: StoreKeeper, store: Store) -> None:
        first = await keeper.lead("cp-1")
        assert first is not None
        row = StoredModel("chat", {"name": "chat", "source": "/m"}, 0.0)
        await keeper.save_model(first.term, row, "ann", AUDIT)
        await keeper.save_scaling(first.term, "chat", {"min": 2}, AUDIT)
        await keeper.set_cordon(first.term, "a", "ann", AUDIT)
        await keeper.park(first.term, "chat", 5, "it exits 1", AUDIT)
        await keeper.remember_node(first.term, "a", "10.0.0.1")
        second = await keeper.lead("cp-1")
        assert second is not None
        assert second.term == first.term + 1
        assert second.engine_secret == first.engine_secret
        assert [m.definition for m in second.models] == [row.definition]
        assert second.scalings == {"chat": {"min": 2}}
        assert second.cordons == {"a": ("ann", False)}
        assert second.nodes == {"a": "10.0.0.1"}
        assert second.parked == {"chat": (5, "it exits 1")}
        assert len(await store.run(audit.query, audit.AuditQuery())) == 4
        await keeper.unpark(second.term, "chat", AUDIT)
        await keeper.set_cordon(second.term, "a", None, AUDIT)
        await keeper.delete_model(second.term, "chat", AUDIT)
        third = await keeper.lead("cp-1")
        assert third is not None
        assert (third.models, third.scalings, third.cordons, third.parked) == ((), {}, {}, {})

    keep(tmp_path, scene)


def test_a_leader_whose_term_is_over_writes_nothing(tmp_path: Path) -> None:
    async def scene(keeper: StoreKeeper, store: Store) -> None:
        first = await keeper.lead("cp-1")
        assert first is not None
        assert await keeper.lead("cp-2") is None
        await keeper.release(first.term)
        second = await keeper.lead("cp-2")
        assert second is not None
        assert not await keeper.renew(first.term)
        assert await keeper.renew(second.term)
        with pytest.raises(Refused) as refused:
            await keeper.set_cordon(first.term, "a", "ann", AUDIT)
        assert refused.value.status == 503
        assert await store.run(audit.query, audit.AuditQuery()) == []

    keep(tmp_path, scene)
