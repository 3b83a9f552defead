"""Which engine flags and variables a profile may not set, as tables (21 section 3). Data only.

Flags are written with hyphens; the matcher turns `_` into `-` first, since llama-server and the argparse engines take
either spelling. The words after a flag complete the sentence "argument <name> is not allowed: it ...".
Sources: the specification's lists, and `llama-server --help` of llama.cpp b10068 for what newer builds added.
"""

from collections.abc import Mapping

_AGENT = "is set by the agent"
_SOURCE = "is the model's source, set by the agent"
_READS = "reads a file"
_WRITES = "writes files"
_LOADS = "loads a file"
_DOWNLOADS = "downloads a model"
_CODE = "runs Python the repository ships"
_IMPORTS = "imports Python"
_OTHER_REPO = "reads another repository or path"
_PROMPTS = "logs prompts"
_RUNS = "runs commands or opens the server to change"
_SIZES = "is a size that comes from the profile"
_CREDENTIAL = "is a credential"
_ELSEWHERE = "sends prompts or cache elsewhere"


def _rows(*groups: tuple[str, str]) -> dict[str, str]:
    """Spread ("flag flag", why) groups into one map."""
    return {flag: why for flags, why in groups for flag in flags.split()}


EVERY_ENGINE: Mapping[str, str] = _rows(
    ("--host --port --api-key --api-key-file", _AGENT),
    ("--model -m", _SOURCE),
    ("--ssl-keyfile --ssl-certfile --ssl-key-file --ssl-cert-file", _READS),
    ("--trust-remote-code", _CODE),
)

PER_ENGINE: Mapping[str, Mapping[str, str]] = {
    "llamacpp": _rows(
        ("--log-file --slot-save-path --prompt-cache --logdir", _WRITES),
        ("--path", "serves a directory over HTTP"),
        ("--rpc", "sends the work to other machines"),
        ("--chat-template-file --system-prompt-file --grammar-file --json-schema-file -jf", _READS),
        ("--lora --lora-scaled", "loads a file; use the model's adapters"),
        ("--control-vector --control-vector-scaled --model-draft -md --spec-draft-model", _LOADS),
        ("--model-vocoder -mv -lcs -lcd --lookup-cache-static --lookup-cache-dynamic", _LOADS),
        ("--mmproj -mm", "loads a file; the projector comes with the model"),
        ("--model-url -mu --hf-repo -hf -hfr --hf-file -hff -dr --docker-repo --mmproj-url -mmu", _DOWNLOADS),
        ("--hf-repo-v -hfv -hfrv --hf-file-v -hffv --spec-draft-hf -hfd -hfrd --hf-repo-draft", _DOWNLOADS),
        ("--embd-gemma-default --fim-qwen-1.5b-default --fim-qwen-3b-default --fim-qwen-7b-default", _DOWNLOADS),
        ("--fim-qwen-7b-spec --fim-qwen-14b-spec --fim-qwen-30b-default --gpt-oss-20b-default", _DOWNLOADS),
        ("--gpt-oss-120b-default --vision-gemma-4b-default --vision-gemma-12b-default", _DOWNLOADS),
        ("--hf-token -hft", _CREDENTIAL),
        ("--alias -a --api-prefix --reuse-port", _AGENT),
        ("--media-path --models-dir --models-preset --ui-config-file --webui-config-file --video-ffmpeg-dir", _READS),
        ("--log-prompts-dir -v --verbose --log-verbose", _PROMPTS),
        ("--tools --tools-runtime --agent -ag --mcp-servers-config --mcp-servers-json", _RUNS),
        ("--ui-mcp-proxy --webui-mcp-proxy --props", _RUNS),
    ),
    "vllm": _rows(
        ("--download-dir", _WRITES),
        ("--tokenizer", _OTHER_REPO),
        ("--chat-template --config --hf-config-path --ssl-ca-certs", _READS),
        ("--allowed-local-media-path", "serves local files to requests"),
        ("--lora-modules", "loads files; use adapters"),
        ("--tool-parser-plugin --middleware --worker-extension-cls --worker-cls", _IMPORTS),
        ("--reasoning-parser-plugin --logits-processors --logits-processor-pattern --io-processor-plugin", _IMPORTS),
        ("--load-format", "changes how weights load, and some ways run code"),
        ("--otlp-traces-endpoint", "sends request traces elsewhere"),
        ("--served-model-name --headless --nnodes --node-rank --master-addr --master-port --uds", _AGENT),
        ("--enable-log-requests", _PROMPTS),
        ("--hf-token", _CREDENTIAL),
        ("--kv-events-config --kv-transfer-config", _ELSEWHERE),
        ("--tensor-parallel-size -tp --pipeline-parallel-size -pp --data-parallel-size -dp", _SIZES),
        ("--code-revision", "chooses the Python a repository ships"),
    ),
    "sglang": _rows(
        ("--tokenizer-path", _OTHER_REPO),
        ("--chat-template --config", _READS),
        ("--file-storage-path --download-dir", _WRITES),
        ("--log-requests", _PROMPTS),
        ("--model-path --served-model-name --nnodes --node-rank --dist-init-addr", _AGENT),
        ("--lora-paths", "loads files"),
        ("--admin-api-key", _CREDENTIAL),
        ("--custom-sigquit-handler", _IMPORTS),
        ("--load-format", "changes how weights load, and some ways run code"),
        ("--enable-trace", "sends request traces elsewhere"),
        ("--tp --tp-size --tensor-parallel-size --pp-size --pipeline-parallel-size --dp-size --data-parallel-size", _SIZES),
    ),
    "trtllm": _rows(
        ("--trust-remote-code", _CODE),
        ("--served-model-name --tp-size --tensor-parallel-size --pp-size --pipeline-parallel-size", _AGENT),
        ("--config --extra-llm-api-options", "reads a file; the agent writes the options"),
        ("--tokenizer", _OTHER_REPO),
        ("--custom-tokenizer --post-processor-hook --custom-module-dirs --middleware", _IMPORTS),
        ("--chat-template --metadata-server-config-file --visual-gen-args", _READS),
        ("--report-addr", "writes a file"),
        ("--otlp-traces-endpoint", "sends traces elsewhere"),
        ("--disagg-cluster-uri --server-role", "joins another cluster"),
        ("--allow-request-chat-template", "lets a request bring a template"),
        ("--grpc", "serves without the key"),
        ("--num-serve-frontends", "starts front ends that do not demand the key"),
        ("--telemetry", "sends usage to the vendor"),
    ),
    "sim": _rows(("--listen --rank --nnodes --leader", _AGENT)),
}

ABBREVIATING = frozenset({"vllm", "sglang"})
"""Engines whose argument parser (argparse) completes abbreviated flags."""

GLUING = frozenset({"vllm", "sglang", "trtllm"})
"""Engines whose parser takes a short option with its value glued on (`-mFILE`)."""

DOTTED = frozenset({"vllm"})
"""Engines that take `--flag.key value` as a way of writing into a JSON valued flag."""

ALLOWED_PREFIXES_OF_DENIED: Mapping[str, frozenset[str]] = {
    "vllm": frozenset({"--reasoning-parser"}),
    "sglang": frozenset(),
}
"""Flags in their own right that happen to begin like a denied one."""

ENV_PREFIXES: tuple[str, ...] = tuple(
    "CUDA_ NCCL_ NVIDIA_ NVTE_ GLOO_ UCX_ TORCH_ PYTORCH_ VLLM_ SGLANG_ GGML_ LLAMA_ OMP_ MKL_ OPENBLAS_ KMP_ HF_ "
    "TRANSFORMERS_ TOKENIZERS_ TRITON_ FLASHINFER_ TRTLLM_ TLLM_".split()
)
ENV_EXACT = frozenset({"PYTHONUNBUFFERED", "PYTHONHASHSEED", "TZ"})
ENV_REFUSED_PARTS: tuple[str, ...] = tuple(
    "PLUGIN INJECTION PRELOAD LIBRARY _LIB _PATH _DIR _HOME _FILE _ROOT _CACHE _CONFIG _ADDRESS _ENDPOINT _TOKEN _URL "
    "API_KEY".split()
)
RUNTIME_LORA_VARIABLE = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"

LLAMA_VARIABLE_FLAGS: Mapping[str, str] = {
    "MODEL_DRAFT": "--model-draft",
    "SPEC_DRAFT_HF_REPO": "--spec-draft-hf",
    "ENDPOINT_PROPS": "--props",
    "LOG_VERBOSE": "--log-verbose",
}
"""`LLAMA_ARG_<X>` whose flag is not spelled `--<x>` (b10068 `--help`)."""
