import json

from llmgw.wire.openai_models import Capabilities, ModelEntry, model_object, models_list


def test_a_model_has_openais_members_and_ours() -> None:
    entry = ModelEntry("org/m", 17, ready=True, capabilities=Capabilities(tools=True), context_length=4096)
    assert json.loads(model_object(entry)) == {
        "id": "org/m",
        "object": "model",
        "created": 17,
        "owned_by": "llmgw",
        "ready": True,
        "capabilities": {"tools": True, "vision": False, "embeddings": False},
        "context_length": 4096,
    }


def test_a_list_keeps_its_order_and_names_an_adapters_parent() -> None:
    listed = json.loads(models_list([ModelEntry("b", 1, ready=False), ModelEntry("a", 1, ready=True, parent="b")]))
    assert listed["object"] == "list"
    assert [(model["id"], model.get("parent")) for model in listed["data"]] == [("b", None), ("a", "b")]


def test_an_empty_list_is_a_list() -> None:
    assert json.loads(models_list([])) == {"object": "list", "data": []}
