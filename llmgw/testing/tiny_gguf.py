"""Write a tiny GGUF model that a real llama-server loads in a tenth of a second and that always gives one answer.

    python -m llmgw.testing.tiny_gguf chat  OUT.gguf [--reply TEXT]
    python -m llmgw.testing.tiny_gguf tools OUT.gguf            # answers with a call of get_weather
    python -m llmgw.testing.tiny_gguf embed OUT.gguf            # embeddings; alike texts get alike vectors
    python -m llmgw.testing.tiny_gguf lora  OUT.gguf            # adapter: flips the chat model's answer

Why the answer is fixed. The greedy next token of a transformer is the row of the output matrix that points most along
the last hidden state, and the residual stream carries the last token's own embedding to the end. So the output matrix
is written, not learned: the row of word k+1 is the embedding of word k, the end token's row is the last word's, and
every byte and special token shares a direction that the first word's row points along. Whatever the prompt, it ends in
a byte or a special token, so the reply starts at its first word, walks the chain and ends (`finish_reason` stop).
Attention and feed-forward weights are small seeded noise: every kernel runs and the chain still wins. The adapter is of
rank 1: it adds, on the shared direction, twice the weight to the first word of another chain, so from scale 0.75 up
the other sentence comes out and at 0 nothing changes.

A vocabulary of 256 bytes, the words and three specials costs about one token per prompt byte. With `ignore_eos` the
chain ends in a quote byte and starts again: an endless stream. Standard library only; equal arguments give equal bytes.
"""

import argparse
import math
import random
import re
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

REPLY = " The tiny model reads your prompt and returns this fixed sentence, one word at every step until it ends."
ADAPTED_REPLY = " Adapter weights are active now so another reply comes out!"
TOOL_REPLY = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
KINDS = ("chat", "tools", "embed", "lora")

_BOS, _START, _END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
_SPECIALS = (_BOS, _START, _END)
_WIDTH, _HIDDEN, _LAYERS, _HEADS = 128, 256, 2, 4
_CONTEXT = 32768
_WANTED_LOGIT = 24.0
_ALIGNMENT = 32
_F32, _F16 = 0, 1
_U32, _I32, _FLOAT, _BOOL, _STR, _ARR = 4, 5, 6, 7, 8, 9
_PACK = {_U32: "<I", _I32: "<i", _FLOAT: "<f", _BOOL: "<?"}

_TEMPLATE = (
    "{%- if tools %}{{ '<|im_start|>system\n' }}"
    "{%- if messages[0].role == 'system' %}{{ messages[0].content + '\n\n' }}{%- endif %}"
    "{{ '# Tools\n\nFunctions you may call:\n<tools>' }}"
    "{%- for tool in tools %}{{ '\n' }}{{ tool | tojson }}{%- endfor %}"
    "{{ '\n</tools>\nTo call one answer:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}'
    "\n</tool_call><|im_end|>\n' }}"
    "{%- elif messages[0].role == 'system' %}"
    "{{ '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}{%- endif %}"
    "{%- for message in messages %}"
    "{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}"
    "{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
    "{%- elif message.role == 'assistant' %}{{ '<|im_start|>assistant\n' }}"
    "{%- if message.content %}{{ message.content }}{%- endif %}"
    "{%- if message.tool_calls %}{%- for call in message.tool_calls %}"
    "{%- if call.function %}{%- set call = call.function %}{%- endif %}"
    "{{ '\n<tool_call>\n{\"name\": \"' + call.name + '\", \"arguments\": ' }}"
    "{%- if call.arguments is string %}{{ call.arguments }}{%- else %}{{ call.arguments | tojson }}{%- endif %}"
    "{{ '}\n</tool_call>' }}{%- endfor %}{%- endif %}{{ '<|im_end|>\n' }}"
    "{%- elif message.role == 'tool' %}"
    "{{ '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}"
    "{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}"
)


@dataclass(frozen=True)
class Tensor:
    """One tensor: its name, its sizes (fastest first), its ggml type and its bytes."""

    name: str
    sizes: tuple[int, ...]
    kind: int
    data: bytes


@dataclass(frozen=True)
class Vocabulary:
    """Every token's text in GPT-2's byte spelling, and the two chains as token numbers."""

    tokens: list[str]
    reply: list[int]
    adapted: list[int]

    def number(self, text: str) -> int:
        """Return a token's number."""
        return self.tokens.index(text)

    def is_opener(self, token: int) -> bool:
        """Return whether a token leads to the first word: bytes and specials do, words of a chain do not."""
        return token not in self.reply and token not in self.adapted


def _byte_spelling() -> list[str]:
    """GPT-2's byte-level vocabulary: printable bytes stand for themselves, the others for characters from 256 on."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    stand_ins = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(stand_ins)) for byte in range(256)]


def _chain_words(text: str, taken: set[str]) -> list[str]:
    """Cut a reply into words, none used twice: where one would be, it is joined to the next (a chain cannot loop)."""
    spelling = _byte_spelling()
    words: list[str] = []
    held = ""
    for piece in re.findall(r"\s*\S+\s*$|\s*\S+", text):
        held += "".join(spelling[byte] for byte in piece.encode())
        if held not in taken:
            taken.add(held)
            words.append(held)
            held = ""
    if held and words:
        words[-1] += held
        taken.add(words[-1])
    return words


def _vocabulary(reply: str, adapted: str) -> Vocabulary:
    first = _byte_spelling()
    taken = {*first, *_SPECIALS}
    chains = [_chain_words(text, taken) for text in (reply, adapted)]
    tokens = [*first, *chains[0], *chains[1], *_SPECIALS]
    number = {token: index for index, token in enumerate(tokens)}
    return Vocabulary(tokens, [number[word] for word in chains[0]], [number[word] for word in chains[1]])


def _directions(vocabulary: Vocabulary, share: bool) -> tuple[list[float], list[list[float]]]:
    """Return the direction all openers share, and every token's embedding: random signs are nearly orthogonal."""
    source = random.Random(20_24)

    def signs() -> list[float]:
        return [source.choice((-1.0, 1.0)) for _ in range(_WIDTH)]

    shared = signs()
    table: list[list[float]] = []
    for token in range(len(vocabulary.tokens)):
        own = signs()
        opener = share and vocabulary.is_opener(token)
        table.append([s + 0.25 * o for s, o in zip(shared, own, strict=True)] if opener else own)
    return shared, table


def _floats(name: str, sizes: tuple[int, ...], values: Iterable[float], kind: int = _F16) -> Tensor:
    flat = list(values)
    return Tensor(name, sizes, kind, struct.pack(f"<{len(flat)}{'e' if kind == _F16 else 'f'}", *flat))


def _output_rows(vocabulary: Vocabulary, shared: list[float], table: list[list[float]]) -> list[list[float]]:
    rows = [[0.0] * _WIDTH for _ in vocabulary.tokens]

    def lead(source: Sequence[float], target: int, weight: float) -> None:
        scale = weight * _WANTED_LOGIT / _WIDTH
        rows[target] = [have + scale * add for have, add in zip(rows[target], source, strict=True)]

    lead(shared, vocabulary.reply[0], 1.0)
    for chain in (vocabulary.reply, vocabulary.adapted):
        for word, after in zip(chain, [*chain[1:], vocabulary.number(_END)], strict=True):
            lead(table[word], after, 1.0)
        lead(table[chain[-1]], vocabulary.number('"'), 0.6)
    return rows


def _block(layer: int, noise: random.Random, out_scale: float) -> list[Tensor]:
    """One transformer block of noise; `out_scale` bounds what it adds to the residual stream."""

    def random_matrix(name: str, wide: int, high: int, scale: float) -> Tensor:
        values = (noise.uniform(-scale, scale) for _ in range(wide * high))
        return _floats(f"blk.{layer}.{name}.weight", (wide, high), values)

    def ones(name: str) -> Tensor:
        return _floats(f"blk.{layer}.{name}.weight", (_WIDTH,), [1.0] * _WIDTH, _F32)

    return [
        ones("attn_norm"),
        *(random_matrix(name, _WIDTH, _WIDTH, 0.1) for name in ("attn_q", "attn_k", "attn_v")),
        random_matrix("attn_output", _WIDTH, _WIDTH, out_scale),
        ones("ffn_norm"),
        random_matrix("ffn_gate", _WIDTH, _HIDDEN, 0.1),
        random_matrix("ffn_up", _WIDTH, _HIDDEN, 0.1),
        random_matrix("ffn_down", _HIDDEN, _WIDTH, out_scale),
    ]


def _model_tensors(vocabulary: Vocabulary, chats: bool) -> list[Tensor]:
    shared, table = _directions(vocabulary, share=chats)
    noise = random.Random(7)
    size = (_WIDTH, len(vocabulary.tokens))
    tensors = [
        _floats("token_embd.weight", size, (x for row in table for x in row)),
        _floats("output_norm.weight", (_WIDTH,), [1.0] * _WIDTH, _F32),
        _floats("output.weight", size, (x for row in _output_rows(vocabulary, shared, table) for x in row)),
    ]
    for layer in range(_LAYERS):
        tensors += _block(layer, noise, 0.02 if chats else 0.2)
    return tensors


Pair = tuple[str, int, object]


def _model_pairs(vocabulary: Vocabulary, kind: str) -> list[Pair]:
    types = [3 if token in _SPECIALS else 1 for token in vocabulary.tokens]
    chats = kind != "embed"
    pairs: list[Pair] = [
        ("general.architecture", _STR, "llama"),
        ("general.type", _STR, "model"),
        ("general.name", _STR, f"tiny-{kind}"),
        ("general.file_type", _U32, 1),
        ("llama.block_count", _U32, _LAYERS),
        ("llama.context_length", _U32, _CONTEXT),
        ("llama.embedding_length", _U32, _WIDTH),
        ("llama.feed_forward_length", _U32, _HIDDEN),
        ("llama.attention.head_count", _U32, _HEADS),
        ("llama.attention.head_count_kv", _U32, _HEADS),
        ("llama.attention.layer_norm_rms_epsilon", _FLOAT, 1e-6),
        ("llama.rope.freq_base", _FLOAT, 10000.0),
        ("llama.rope.dimension_count", _U32, _WIDTH // _HEADS),
        ("llama.vocab_size", _U32, len(vocabulary.tokens)),
        ("tokenizer.ggml.model", _STR, "gpt2"),
        ("tokenizer.ggml.pre", _STR, "llama-bpe"),
        ("tokenizer.ggml.tokens", _ARR, (_STR, vocabulary.tokens)),
        ("tokenizer.ggml.token_type", _ARR, (_I32, types)),
        # The format wants merges; two stand-ins for a space never meet inside a word of ours.
        ("tokenizer.ggml.merges", _ARR, (_STR, ["\u0120 \u0120"])),
        ("tokenizer.ggml.bos_token_id", _U32, vocabulary.number(_BOS)),
        ("tokenizer.ggml.eos_token_id", _U32, vocabulary.number(_END if chats else _BOS)),
        ("tokenizer.ggml.add_bos_token", _BOOL, False),
    ]
    pairs += [("tokenizer.chat_template", _STR, _TEMPLATE)] if chats else [("llama.pooling_type", _U32, 1)]
    return pairs


def _adapter(vocabulary: Vocabulary) -> tuple[list[Pair], list[Tensor]]:
    """A rank 4 adapter of the output matrix of which one rank is used: b x a = "first adapted word" x shared."""
    rank = 4
    shared, _ = _directions(vocabulary, share=True)
    a = [2.0 * _WANTED_LOGIT / _WIDTH * x for x in shared] + [0.0] * (_WIDTH * (rank - 1))
    b = [0.0] * (rank * len(vocabulary.tokens))
    b[vocabulary.adapted[0] * rank] = 1.0
    pairs: list[Pair] = [
        ("general.architecture", _STR, "llama"),
        ("general.type", _STR, "adapter"),
        ("general.name", _STR, "tiny-lora"),
        ("adapter.type", _STR, "lora"),
        ("adapter.lora.alpha", _FLOAT, float(rank)),
    ]
    tensors = [
        _floats("output.weight.lora_a", (_WIDTH, rank), a, _F32),
        _floats("output.weight.lora_b", (rank, len(vocabulary.tokens)), b, _F32),
    ]
    return pairs, tensors


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _scalar(kind: int, value: object) -> bytes:
    return _text(str(value)) if kind == _STR else struct.pack(_PACK[kind], value)


def _pair_bytes(pair: Pair) -> bytes:
    key, kind, value = pair
    head = _text(key) + struct.pack("<I", kind)
    if kind != _ARR:
        return head + _scalar(kind, value)
    element_kind, elements = value  # type: ignore[misc]
    return head + struct.pack("<IQ", element_kind, len(elements)) + b"".join(_scalar(element_kind, e) for e in elements)


def container(pairs: Sequence[Pair], tensors: Sequence[Tensor]) -> bytes:
    """Return a GGUF v3 file of the given metadata and tensors."""

    def padded(data: bytes) -> bytes:
        return data + b"\0" * (-len(data) % _ALIGNMENT)

    out = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(pairs)), *map(_pair_bytes, pairs)]
    offset = 0
    for tensor in tensors:
        out.append(_text(tensor.name) + struct.pack(f"<I{len(tensor.sizes)}Q", len(tensor.sizes), *tensor.sizes))
        out.append(struct.pack("<IQ", tensor.kind, offset))
        offset += math.ceil(len(tensor.data) / _ALIGNMENT) * _ALIGNMENT
    return padded(b"".join(out)) + b"".join(padded(tensor.data) for tensor in tensors)


def tiny_gguf(kind: str = "chat", reply: str | None = None, adapted: str = ADAPTED_REPLY) -> bytes:
    """Return the file of one of KINDS. A chat model and its adapter must be made with the same two replies."""
    if kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}, not {kind}")
    text = reply if reply is not None else TOOL_REPLY if kind == "tools" else REPLY
    vocabulary = _vocabulary(text, adapted)
    if kind == "lora":
        return container(*_adapter(vocabulary))
    return container(_model_pairs(vocabulary, kind), _model_tensors(vocabulary, chats=kind != "embed"))


def main(argv: Sequence[str] | None = None) -> int:
    """Write one file; return the exit status."""
    parser = argparse.ArgumentParser(prog="tiny_gguf", description="Write a tiny GGUF model with a fixed answer.")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("out", type=Path)
    parser.add_argument("--reply", help="what the model says")
    parser.add_argument("--adapted", default=ADAPTED_REPLY, help="what it says with the adapter on")
    options = parser.parse_args(argv)
    data = tiny_gguf(options.kind, options.reply, options.adapted)
    options.out.write_bytes(data)
    print(f"{options.out} {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
