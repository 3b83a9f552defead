"""Every rule of what may enter the catalog, as a table of definitions that may not (L-1 to L-11)."""

from __future__ import annotations

from typing import Any

import pytest

from llmgw.config.model import decode_model, definition_data
from llmgw.config.refusal import Refused
from llmgw.policy.catalog import check, check_all, warnings
from tests.policy.builds import definition, profile

OTHERS = {
    "other": definition("other", aliases=["o2"], adapters="fr=/fr.gguf"),
    "judge": definition("judge", role="guard", guard={"format": "json"}),
}


def raw(**more: Any) -> dict[str, Any]:
    return {"name": "chat", "source": "/m.gguf", "profiles": [profile()], **more}


def with_profile(**more: Any) -> dict[str, Any]:
    return raw(profiles=[profile(**more)])


def with_gpu(engine: str = "vllm", **more: Any) -> dict[str, Any]:
    return raw(source="org/repo", profiles=[profile(engine=engine, gpu_class="a100-80g", **more)])


def with_scaling(**more: Any) -> dict[str, Any]:
    return raw(scaling=more)


def with_window(**more: Any) -> dict[str, Any]:
    return with_scaling(schedule=[{"from": "08:00", "to": "18:00", **more}])


BAD: list[tuple[int, str, Any]] = [
    (400, "a definition is a table of keys, not list", []),
    (400, "unknown field `modle`", raw(modle="x")),
    (400, r"profiles\[0\]: Object contains unknown field `gpu`", with_profile(gpu=1)),
    (400, "scaling: Object contains unknown field `least`", with_scaling(least=1)),
    (400, r"scaling\.min: Expected `int`, got `str`", with_scaling(min="1")),
    (400, "missing required field `name`", {"source": "/m"}),
    (400, r"profiles\[0\].*missing required field `engine`", raw(profiles=[{"name": "x"}])),
    # A size nobody means. Above 64 bits it could not be sent, above 10,000 entries agents ended their link over it, again
    # and again; 20,000 aliases held the server up for ten seconds, and every agent took it for dead.
    (400, "'chat': profiles\\[0\\] 'cpu': tp is at most 65536", with_profile(tp=2**70)),
    (400, "power_watts is at most 1000000", with_profile(power_watts=1e30)),
    (400, "min_memory_gb is at most 1000000", with_profile(min_memory_gb=1e300)),
    (400, "cpu_cores is at most", raw(resources={"cpu_cores": 2**64})),
    (400, "ready_timeout is at most 366 days", with_profile(ready_timeout="9999999999999999h")),
    (400, "scaling: idle_timeout is at most 366 days", with_scaling(idle_timeout="999999h")),
    (400, "scaling: max is at most 65536", with_scaling(max=10**9)),
    (400, r"scaling.schedule\[0\]: max is at most", with_window(min=0, max=10**9)),
    (400, "args has more than 1024 entries", with_profile(args=["--x"] * 1025)),
    (400, "env has more than 1024 entries", with_profile(env={f"CUDA_{n}": "" for n in range(1025)})),
    (400, "aliases has more than 1024 entries", raw(aliases=[f"a{n}" for n in range(20_000)])),
    (400, "adapters has more than 1024 entries", raw(adapters=",".join(f"a{n}=/a" for n in range(1025)))),
    (400, "profiles has more than 1024 entries", raw(profiles=[profile()] * 1025)),
    # L-1
    (400, "name 'a b' is not a name", raw(name="a b")),
    (400, "name '' is not a name", raw(name="")),
    (400, "is not a name", raw(name="x" * 64)),
    (400, "alias '-x' is not a name", raw(aliases=["-x"])),
    (400, "adapter '../x' is not a name", raw(adapters="../x=/a.gguf")),
    (400, "'chat' is used twice", raw(aliases=["chat"])),
    (409, "the name 'other' is taken", raw(name="other")),
    (409, "the name 'o2' is taken by model 'other'", raw(aliases=["o2"])),
    (409, "the name 'fr' is taken by model 'other'", raw(aliases=["fr"])),
    (400, "fallback 'chat' is the model itself", raw(fallbacks=["chat"])),
    (400, "fallback 'judge' is a guard", raw(fallbacks=["judge"])),
    (400, "fallback 'nobody' is not a model", raw(fallbacks=["nobody"])),
    (501, "names a peer's model", raw(fallbacks=["peer/model"])),
    # L-2
    (400, "min and max are zero or more", with_scaling(min=-1)),
    (400, "max 1 is less than min 2", with_scaling(min=2, max=1)),
    (400, "idle_timeout is negative", with_scaling(idle_timeout=-1)),
    (400, "idle_timeout 1800000000000 is more than ten years", with_scaling(idle_timeout=1800000000000)),
    (400, "prewarm 'soon' is not a duration", with_scaling(prewarm="soon")),
    (400, "queue_target is at least 1", with_scaling(queue_target=0)),
    (400, "from and to are equal", with_window(to="08:00")),
    (400, "min 3 and max 2 must be", with_window(min=3, max=2)),
    (400, "day 'monday' is not one of mon", with_window(days=["monday"])),
    (400, "to '24:00' is not a time of day", with_window(to="24:00")),
    (400, "from '8:00' is not a time of day", with_window(**{"from": "8:00"})),
    # L-3
    (400, "there is no engine 'ollama'", with_profile(engine="ollama")),
    (400, "class 'urgent' is not one of critical", raw(**{"class": "urgent"})),
    (400, "owner 'Acme' is not org:X", raw(owner="Acme")),
    (501, "owner: capacity quotas come with", raw(owner="org:Acme")),
    (400, "capability 'fast' is not one of tools", raw(capabilities=["fast"])),
    # L-4
    (
        400,
        r"profiles\[1\] 'b': argument --log-file is not allowed",
        raw(profiles=[profile(), profile("b", args=["--log-file", "x"])]),
    ),
    (400, "argument --host is not allowed", with_profile(args=["--host=0.0.0.0"])),
    (400, "variable LD_PRELOAD is not allowed", with_profile(env={"LD_PRELOAD": "x"})),
    (400, "follows from max_loaded_adapters", with_gpu(env={"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"})),
    (400, "without NUL", with_profile(args=["a\0b"])),
    # L-5
    (400, "a MIG class takes", with_profile(gpu_class="a100-80g-mig-3g.40gb", gpus_per_node=2)),
    (400, "a MIG class takes", raw(source="org/r", profiles=[profile(engine="vllm", gpu_class="a-mig-1g.5gb", tp=2)])),
    # L-6
    (400, "use vllm or sglang for several nodes", with_profile(nodes=2)),
    (400, "no tensor or pipeline parallelism", with_profile(gpu_class="l4-22g", tp=2)),
    (400, "trtllm runs on one node", with_gpu("trtllm", nodes=2, tp=2)),
    (400, "vllm needs a GPU", with_profile(engine="vllm")),
    (400, "sglang needs a GPU", raw(source="org/r", profiles=[profile(engine="sglang")])),
    (400, "trtllm needs a GPU", raw(source="org/r", profiles=[profile(engine="trtllm")])),
    (400, "trtllm does not serve GGUF", raw(profiles=[profile(engine="trtllm", gpu_class="a")])),
    (400, "no tensor or pipeline parallelism", with_profile(gpu_class="l4-22g", pp=2)),
    (400, "does not serve GGUF", raw(profiles=[profile(engine="vllm", gpu_class="a")])),
    (400, "adapters are served by llamacpp and vllm only", {**with_gpu("sglang"), "adapters": "x=org/x"}),
    (400, "adapters are served by llamacpp and vllm only", {**with_gpu("trtllm"), "adapters": "x=org/x"}),
    (400, "kv_events is vllm's only", with_profile(kv_events=True)),
    (400, "max_loaded_adapters is given without adapters", raw(max_loaded_adapters=2)),
    (400, "needs a vllm profile", raw(max_loaded_adapters=2, adapters="x=/x.gguf")),
    (400, "is not `name=source`", raw(adapters="x")),
    # L-7
    (400, "tp x pp is 2 but nodes x gpus_per_node is 4", with_gpu(tp=2, gpus_per_node=4)),
    # L-8
    (400, "keep_within 'desk' is not one of rack", with_profile(keep_within="desk")),
    (400, "power_watts is zero or more", with_profile(power_watts=-1)),
    (400, "'llmgw.io/shelf' is not one of", with_profile(node_selector={"llmgw.io/shelf": "1"})),
    (400, "gpus_per_node is given without a gpu_class", with_profile(gpus_per_node=1)),
    (400, "tp is at least 1", with_gpu(tp=0)),
    # L-9
    (400, "role 'chat' is not known", raw(role="chat")),
    (400, "role guard needs guard.format", raw(role="guard")),
    (400, "guard.format 'yaml' is not one of", raw(role="guard", guard={"format": "yaml"})),
    (400, "never loaded on demand", raw(role="guard", guard={"format": "json"}, scaling={"min": 0})),
    (400, "neither fallbacks nor aliases", raw(role="guard", guard={"format": "json"}, aliases=["x"])),
    (400, "guard is given but role is not guard", raw(guard={"format": "json"})),
    # L-10
    (400, "external and profiles exclude each other", raw(external={"url": "x"})),
    (501, "external: models of outside providers", {"name": "chat", "external": {"url": "x"}}),
    (400, "profiles is empty", raw(profiles=[])),
    (400, "two profiles have one name", raw(profiles=[profile(), profile()])),
    # Sources, and what is not there yet
    (400, "source is empty", raw(source="")),
    (400, "is none of: an absolute path", raw(source="m.gguf")),
    (400, "carries a user name or password", raw(source="https://me:pw@h/m.gguf")),
    (400, "origin and canary are set by llmgw", raw(origin={"repo": "x"})),
    (501, "eval: gates come with", raw(eval={"suite": "s"})),
    (501, r"profiles\[0\]\.nodes: multi-node placement comes with the fabric work", with_gpu(nodes=2, tp=2)),
]  # fmt: skip


@pytest.mark.covers("L-11", "L-5", "X-12", "X-14", "X-13", "L-1", "L-2", "L-4", "L-6", "L-8", "E-65", "E-108")
@pytest.mark.parametrize(("status", "sentence", "bad"), BAD)
def test_a_bad_definition_is_refused_with_a_sentence_that_names_what_is_wrong(
    status: int, sentence: str, bad: Any
) -> None:
    with pytest.raises(Refused, match=sentence) as refused:
        check(decode_model(bad), OTHERS)
    assert refused.value.status == status


GOOD: list[dict[str, Any]] = [
    raw(),
    raw(description="d", aliases=["c2"], capabilities=["tools"], fallbacks=["other"], slo={"ttft_p99": "200ms"}),
    raw(adapters="a=/a.gguf@0.5,b=hf:org/repo/f.gguf@main", **{"class": "critical"}),
    raw(role="guard", guard={"format": "qwen3guard", "categories": ["x"]}),
    raw(source="https://h/dir/", resources={"min_memory_gb": 3, "cpu_cores": 2}),
    with_gpu(gpus_per_node=4, args=["--max-model-len", "8192"], env={"NCCL_DEBUG": "WARN"}, kv_events=True),
    with_gpu("sglang", tp=2, pp=2),
    {**with_gpu(), "adapters": "x=org/x", "max_loaded_adapters": 4},
    with_profile(gpu_class="a100-80g-mig-3g.40gb", node_selector={"llmgw.io/rack": "r1", "any": "x"}),
    with_scaling(
        min=0, max=3, idle_timeout=60, prewarm="10m",
        schedule=[{"days": ["mon"], "from": "22:00", "to": "06:00", "min": 1}],
    ),
    with_scaling(min=2, max=0),
    raw(profiles=[profile("a", engine="sim"), profile("b", ready_timeout="5m", keep_within="rack", power_watts=300)]),
]  # fmt: skip


@pytest.mark.covers("L-11")
def test_a_table_of_bad_definitions_is_refused_and_every_good_one_comes_back_with_defaults() -> None:
    refused: list[str] = []
    for _, _, bad in BAD:
        with pytest.raises(Refused) as error:
            check(decode_model(bad), OTHERS)
        refused.append(error.value.sentence)
    assert len(refused) >= 60
    for good in GOOD:
        kept = check(decode_model(good), OTHERS)
        data = definition_data(kept)
        assert decode_model(data) == kept
        assert {"description", "aliases", "scaling", "class", "owner", "profiles"} <= data.keys()
        assert {"tp", "pp", "gpus_per_node", "args", "env", "cpu_cores"} <= data["profiles"][0].keys()


def test_defaults_follow_from_what_is_written() -> None:
    gpu = check(decode_model(with_gpu(gpus_per_node=4)), {}).profiles[0]
    assert (gpu.tp, gpu.cpu_cores) == (4, 4)
    wide = check(decode_model(with_gpu(tp=2, pp=2)), {}).profiles[0]
    assert wide.gpus_per_node == 4
    guard = OTHERS["judge"]
    assert (guard.klass, guard.scaling.min, guard.scaling.max) == ("critical", 2, 2)
    assert definition(scaling={"min": 3}).scaling.max == 3
    assert definition(scaling={"min": 0}).scaling.max == 1


@pytest.mark.covers("E-33")
def test_llama_servers_arguments_become_two_tokens() -> None:
    assert check(decode_model(with_profile(args=["--ctx-size=4096"])), {}).profiles[0].args == ("--ctx-size", "4096")


def test_declared_models_may_name_one_another_in_any_order_but_not_twice() -> None:
    first, second = decode_model(raw(fallbacks=["late"])), decode_model(raw(name="late"))
    assert [d.name for d in check_all([first, second])] == ["chat", "late"]
    with pytest.raises(Refused, match="is defined twice"):
        check_all([second, second])


def test_a_judge_with_one_replica_is_warned_of() -> None:
    lone = definition("judge", role="guard", guard={"format": "json"}, scaling={"min": 1, "max": 1})
    assert "fewer than two" in warnings(lone)[0]
    assert warnings(OTHERS["judge"]) == ()


def refusal(bad: dict[str, Any]) -> str:
    with pytest.raises(Refused) as error:
        check(decode_model(bad), OTHERS)
    return error.value.sentence


@pytest.mark.covers("L-7")
def test_ranks_must_equal_the_cards_they_are_given() -> None:
    for engine in ("vllm", "sglang", "trtllm"):
        for tp, pp, cards in ((2, 1, 4), (2, 2, 2), (1, 3, 1)):
            assert "they must be equal" in refusal(with_gpu(engine, tp=tp, pp=pp, gpus_per_node=cards))
        assert check(decode_model(with_gpu(engine, tp=2, pp=2, gpus_per_node=4)), {}).profiles[0].tp == 2


@pytest.mark.covers("L-10")
def test_an_outside_model_has_no_profiles_adapters_role_or_gate() -> None:
    outside = {"name": "chat", "external": {"url": "https://h"}}
    for more in (
        {"profiles": [profile()]},
        {"adapters": "x=/x"},
        {"role": "guard", "guard": {"format": "json"}},
        {"eval": {"suite": "s"}},
    ):
        assert f"external and {next(iter(more))} exclude each other" in refusal({**outside, **more})
