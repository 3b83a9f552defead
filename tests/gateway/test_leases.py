"""Allowance held for a few seconds (T-60)."""

import pytest
import trio

from llmgw.gateway.leases import Leases
from llmgw.ports import LeaseAsk, LeaseGrant, StoreUnavailable


class Port:
    def __init__(self, *grants: LeaseGrant) -> None:
        self.grants = list(grants)
        self.asked: list[LeaseAsk] = []
        self.is_away = False

    async def lease(self, ask: LeaseAsk) -> LeaseGrant:
        self.asked.append(ask)
        if self.is_away:
            raise StoreUnavailable("away")
        return self.grants.pop(0) if len(self.grants) > 1 else self.grants[0]


def played(port: Port, script) -> None:
    now = [100.0]

    async def main() -> None:
        await script(Leases(port, "gw", lambda: now[0]), now)  # type: ignore[arg-type]

    trio.run(main)


@pytest.mark.covers("F-12")
def test_an_unlimited_lease_is_asked_for_once_in_five_seconds_and_returned_at_renewal():
    port = Port(LeaseGrant(1, 5.0, unlimited=True))

    async def script(leases, now):
        for _ in range(100):
            assert await leases.spend("rpm:k") is None
        assert len(port.asked) == 1
        now[0] += 5.1
        assert await leases.spend("rpm:k") is None
        assert port.asked[1] == LeaseAsk("rpm:k", 1, "gw", returned=1)

    played(port, script)


def test_units_are_spent_and_their_end_is_429():
    port = Port(LeaseGrant(2, 5.0), LeaseGrant(0, 5.0))

    async def script(leases, now):
        outcomes = [await leases.spend("rpm:k") for _ in range(3)]
        assert [outcome and outcome.status for outcome in outcomes] == [None, None, 429]

    played(port, script)


def test_with_the_owner_away_an_unlimited_key_goes_on_and_any_other_is_503():
    port = Port(LeaseGrant(1, 5.0, unlimited=True))

    async def script(leases, now):
        assert await leases.spend("rpm:k") is None
        port.is_away = True
        now[0] += 60
        assert await leases.spend("rpm:k") is None
        refusal = await leases.spend("rpm:new")
        assert refusal.status == 503
        assert refusal.kind.code == "store_unavailable"

    played(port, script)
