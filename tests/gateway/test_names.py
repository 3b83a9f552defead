"""What a model's name may be (S-5)."""

import msgspec

from llmgw.gateway.names import Names, is_allowed
from llmgw.ports import ModelRoute, Principal

BASE = ModelRoute("base", "serving", 1, aliases=("b",), adapters=("poet",))
JUDGE = ModelRoute("judge", "serving", 1, role="guard")
NAMES = Names([BASE, JUDGE])
ANYONE = Principal("k", "project", "h", "o", "t", "p", "")


def only(*models: str) -> Principal:
    return msgspec.structs.replace(ANYONE, models=models)


def listed(principal: Principal | None) -> list[str]:
    return [target.name for target in NAMES.listed(principal)]


def test_a_name_an_alias_and_an_adapter_are_found():
    for name, canonical, adapter in (("base", "base", None), ("b", "base", None), ("poet", "poet", 0)):
        target = NAMES.target(name)
        assert target is not None
        assert (target.name, target.model, target.adapter) == (canonical, BASE, adapter)
    assert NAMES.target("nobody") is None


def test_the_list_has_adapters_and_never_a_guard():
    assert listed(None) == ["base", "poet"]
    assert listed(ANYONE) == ["base", "poet"]


def test_a_name_and_its_aliases_are_one_and_an_adapter_is_its_own():
    assert listed(only("b")) == ["base"]
    assert listed(only("poet")) == ["poet"]
    assert listed(only()) == []
    poet = NAMES.target("poet")
    assert poet is not None
    assert not is_allowed(only("b", "base"), poet)


def test_a_canonical_name_wins_over_an_alias_and_an_alias_over_an_adapter():
    names = Names(
        [ModelRoute("a", "serving", 1, aliases=("x", "b"), adapters=("x",)), ModelRoute("b", "serving", 1)]
    )
    b, x = names.target("b"), names.target("x")
    assert b is not None
    assert b.model.name == "b"
    assert x is not None
    assert x.adapter is None
