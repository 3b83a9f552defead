"""What requests cost (T-33)."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.gateway.accounting import cost_micros, outcome_of, prices
from llmgw.ports import GatewaySettings

count = st.integers(0, 10**9)


@given(count, count, count, count)
def test_cost_is_rounded_half_up_and_exact(prompt, completion, prompt_price, completion_price):
    exact = Fraction(prompt * prompt_price + completion * completion_price, 1000)
    assert (
        cost_micros(prompt, completion, prompt_price, completion_price)
        == (exact + Fraction(1, 2)).__floor__()
    )


@pytest.mark.parametrize(
    ("served", "base", "expected"),
    [
        ("paid", "paid", (1000, 2000)),
        ("adapter", "paid", (1000, 2000)),
        ("own", "paid", (5, 0)),
        ("other", "other", (7, 9)),
        ("free", "free", (0, 0)),
    ],
)
def test_an_adapter_has_its_own_price_or_its_bases_and_the_rest_the_default(served, base, expected):
    settings = GatewaySettings(
        prompt_price_micros={"paid": 1000, "own": 5, "free": 0},
        completion_price_micros={"paid": 2000, "free": 0},
        default_prompt_price_micros=7,
        default_completion_price_micros=9,
    )
    assert prices(settings, served, base) == expected


def test_without_any_price_everything_is_free():
    assert prices(GatewaySettings(), "a", "a") == (0, 0)


@pytest.mark.parametrize(
    ("status", "outcome"), [(200, "ok"), (400, "error"), (429, "limited"), (499, "cancelled"), (502, "error")]
)
def test_every_end_has_a_word(status, outcome):
    assert outcome_of(status) == outcome
