from __future__ import annotations

import pytest

from llmgw.config.refusal import Refused
from llmgw.control.catalog import Catalog
from llmgw.control.keeper import Kept, StoredModel
from tests.control.leader_rig import model


def kept(*names: str, **scalings: dict[str, object]) -> Kept:
    rows = tuple(StoredModel(n, model(n), 7.0) for n in names)
    return Kept(term=1, engine_secret=b"", models=rows, scalings=scalings)


def test_declared_and_stored_models_stand_side_by_side_by_name() -> None:
    catalog = Catalog([model("b")], 5.0)
    catalog.load(kept("c", "a"))
    assert [d.name for d in catalog] == ["a", "b", "c"]
    assert (catalog.is_declared("b"), catalog.is_declared("a")) == (True, False)
    assert (catalog.added_unix("b"), catalog.added_unix("a")) == (5.0, 7.0)


def test_a_wrong_declared_model_stops_the_server_with_its_place() -> None:
    with pytest.raises(Refused, match=r"models\[1\] 'x'.*unknown field"):
        Catalog([model("b"), {**model("x"), "odd": 1}], 0.0)


def test_a_stored_model_whose_name_was_declared_since_is_left_out_and_named() -> None:
    catalog = Catalog([model("a")], 0.0)
    catalog.load(kept("a", "b"))
    assert [d.name for d in catalog] == ["a", "b"]
    assert "the name 'a' is taken" in catalog.problems[0]


def test_scaling_overrides_a_definition_key_by_key() -> None:
    catalog = Catalog([model("a", min=1, max=2)], 0.0)
    catalog.load(kept(a={"max": 5}))
    assert (catalog["a"].scaling.min, catalog["a"].scaling.max) == (1, 5)
    catalog.set_scaling("a", catalog.checked_scaling("a", {"idle_timeout": "90s"}))
    assert (catalog["a"].scaling.max, catalog["a"].scaling.idle_timeout) == (5, 90.0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, "scale takes min, max, idle_timeout"),
        ({"most": 1}, "not 'most'"),
        ({"min": True}, "min is a whole number"),
        ({"min": 3}, "max 2 is less than min 3"),
        ({"idle_timeout": "soon"}, "is not a duration"),
    ],
)
def test_a_scaling_that_is_wrong_changes_nothing(change: dict[str, object], sentence: str) -> None:
    catalog = Catalog([model("a", min=1, max=2)], 0.0)
    with pytest.raises(Refused, match=sentence):
        catalog.checked_scaling("a", change)
    assert catalog["a"].scaling.min == 1


def test_an_unknown_model_is_refused_by_name() -> None:
    with pytest.raises(Refused, match="there is no model 'z'") as refused:
        _ = Catalog([], 0.0)["z"]
    assert refused.value.status == 404
