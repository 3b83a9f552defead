"""`GET /v1/models` (S-24)."""

from tests.gateway.rig import api_key, played


async def fleet(rig) -> None:
    rig.add_model(
        "org/base", aliases=("b",), adapters=("poet",), capabilities=("tools", "vision"), context_length=4096
    )
    rig.add_model("vectors", capabilities=("embeddings",))
    rig.add_model("judge", role="guard")
    await rig.add_engine(model="org/base")
    await rig.settle()


async def ids(rig) -> list[str]:
    answer = await rig.client.get("/v1/models", headers=rig.headers())
    assert answer.json()["object"] == "list"
    return [entry["id"] for entry in answer.json()["data"]]


def test_two_keys_see_different_lists_and_nobody_sees_a_judge():
    async def script(rig):
        await fleet(rig)
        assert await ids(rig) == ["org/base", "poet", "vectors"]
        rig.key = api_key("B")
        rig.add_key(rig.key, models=("vectors",))
        assert await ids(rig) == ["vectors"]

    played(script)


def test_an_entry_says_what_a_model_can_do_and_whether_it_could_now():
    async def script(rig):
        await fleet(rig)
        answer = await rig.client.get("/v1/models/org/base", headers=rig.headers())
        assert answer.json() == {
            "id": "org/base",
            "object": "model",
            "created": 1_700_000_000,
            "owned_by": "llmgw",
            "ready": True,
            "capabilities": {"tools": True, "vision": True, "embeddings": False},
            "context_length": 4096,
        }
        answer = await rig.client.get("/v1/models/vectors", headers=rig.headers())
        assert answer.json()["ready"] is False
        answer = await rig.client.get("/v1/models/poet", headers=rig.headers())
        assert answer.json()["parent"] == "org/base"

    played(script)


def test_an_id_is_found_by_alias_and_with_its_slash_escaped():
    async def script(rig):
        await fleet(rig)
        for path in ("b", "org%2Fbase"):
            answer = await rig.client.get(f"/v1/models/{path}", headers=rig.headers())
            assert answer.json()["id"] == "org/base"

    played(script)


def test_unknown_forbidden_and_guard_models_are_the_same_404():
    async def script(rig):
        await fleet(rig)
        rig.key = api_key("B")
        rig.add_key(rig.key, models=("vectors",))
        for name in ("nobody", "org/base", "judge"):
            answer = await rig.client.get(f"/v1/models/{name}", headers=rig.headers())
            assert answer.status_code == 404
            assert answer.json()["error"]["code"] == "not_found"

    played(script)
