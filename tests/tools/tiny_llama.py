"""Writes a Llama checkpoint of some hundred kilobytes with random weights and a tokenizer of 300 tokens.

Its text is mostly letters: channel 0 of every hidden state is large and positive, and column 0 of the output head
gives each token a constant push through it. The head is wider than the tokenizer (320 rows), and a row that no
token has is pushed hardest of all: an engine that samples padded ids would do nothing else (see `FORBIDDEN_ID`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from torch import Tensor

__all__ = ["BOS_ID", "EOS_ID", "FORBIDDEN_ID", "NUM_TOKENS", "VOCAB_SIZE", "write_tiny_llama"]

SPECIAL_TOKENS = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")
MERGED = (
    "th he in er an re on at en un ti es or te of ed is it al ar st to nt ng se ha as ou io le ve co me de hi ri ro"
)
PAIRS = (*MERGED.split(), "ic", "ne", "ea")
BOS_ID, EOS_ID = 256 + len(PAIRS), 257 + len(PAIRS)
NUM_TOKENS = 256 + len(PAIRS) + len(SPECIAL_TOKENS)
VOCAB_SIZE = 320
FORBIDDEN_ID = 310
"""An id without a token, whose score is the highest of all, always."""

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": VOCAB_SIZE,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "bos_token_id": BOS_ID,
    "eos_token_id": EOS_ID,
}
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tiny_llama(
    folder: Path, *, adds_bos: bool = False, num_shards: int = 1, config: Mapping[str, Any] | None = None
) -> Path:
    """Write a whole checkpoint into `folder` and return it. `config` replaces keys; None drops a key."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {key: value for key, value in {**CONFIG, **(config or {})}.items() if value is not None}
    _write_json(folder / "config.json", settings)
    _write_json(
        folder / "tokenizer_config.json",
        {"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": adds_bos, "chat_template": CHAT_TEMPLATE},
    )
    _tokenizer(adds_bos=adds_bos).save(str(folder / "tokenizer.json"))
    _write_tensors(folder, _tensors(), num_shards)
    return folder


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def _write_tensors(folder: Path, tensors: dict[str, Tensor], num_shards: int) -> None:
    if num_shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    names, weight_map = sorted(tensors), {}
    for shard in range(num_shards):
        file = f"model-{shard + 1:05}-of-{num_shards:05}.safetensors"
        part = {name: tensors[name] for name in names[shard::num_shards]}
        weight_map |= dict.fromkeys(part, file)
        save_file(part, folder / file, metadata={"format": "pt"})
    _write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})


def _tensors(seed: int = 8) -> dict[str, Tensor]:
    """The seed is one whose greedy texts do not soon repeat themselves."""
    rng = torch.Generator().manual_seed(seed)
    width, hidden, kv_width = CONFIG["hidden_size"], CONFIG["intermediate_size"], 16

    def matrix(d_out: int, d_in: int, gain: float = 1.0) -> Tensor:
        return torch.randn(d_out, d_in, generator=rng) * gain * d_in**-0.5

    embed = torch.randn(VOCAB_SIZE, width, generator=rng)
    embed[:, 0] = 8.0
    tensors = {
        "model.embed_tokens.weight": embed,
        "model.norm.weight": torch.ones(width),
        "lm_head.weight": _head(matrix(VOCAB_SIZE, width, gain=6.0)),
    }
    for index in range(CONFIG["num_hidden_layers"]):
        at = f"model.layers.{index}"
        tensors |= {
            f"{at}.input_layernorm.weight": torch.ones(width),
            f"{at}.post_attention_layernorm.weight": torch.ones(width),
            f"{at}.self_attn.q_proj.weight": matrix(width, width, gain=2.0),
            f"{at}.self_attn.k_proj.weight": matrix(kv_width, width, gain=2.0),
            f"{at}.self_attn.v_proj.weight": matrix(kv_width, width),
            f"{at}.self_attn.o_proj.weight": _without_push(matrix(width, width, gain=4.0)),
            f"{at}.mlp.gate_proj.weight": matrix(hidden, width),
            f"{at}.mlp.up_proj.weight": matrix(hidden, width),
            f"{at}.mlp.down_proj.weight": _without_push(matrix(width, hidden, gain=6.0)),
        }
    return tensors


def _without_push(weight: Tensor) -> Tensor:
    """Layers leave channel 0 of the stream alone, so that it stays large and positive."""
    weight[0] = 0
    return weight


def _head(weight: Tensor) -> Tensor:
    weight[:, 0] = -3.0  # bytes that are no letters, and control tokens
    letters = pre_tokenizers.ByteLevel.alphabet()
    for token_id, token in enumerate(sorted(letters)):
        if token.isascii() and token.isalpha():
            weight[token_id, 0] = 0.0
    weight[256 : 256 + len(PAIRS), 0] = 0.0
    weight[FORBIDDEN_ID] = 0
    weight[FORBIDDEN_ID, 0] = 60.0
    return weight


def _tokenizer(*, adds_bos: bool) -> Tokenizer:
    """Byte-level BPE: every text has tokens, and every id below `NUM_TOKENS` has a text."""
    vocab = {letter: index for index, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocab |= {pair: 256 + index for index, pair in enumerate(PAIRS)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[(pair[0], pair[1]) for pair in PAIRS]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", BOS_ID)]
        )
    assert tokenizer.get_vocab_size() == NUM_TOKENS
    return tokenizer
