"""Random model folders of some hundred kilobytes, written through transformers, for parity tests.

Each function fills `path` as Hugging Face lays a model out (config.json, safetensors, tokenizer.json, chat template)
and returns it. Weights are drawn so wide that logits differ clearly between tokens. Needs `infer-testkit[tiny]`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["CHAT_TEMPLATE", "ROPES", "make_gemma3", "make_llama", "make_mistral", "make_tokenizer"]

VOCAB_SIZE = 320
MAX_POSITIONS = 256

ROPES: Mapping[str, Mapping[str, Any]] = {
    "default": {"rope_type": "default", "rope_theta": 500.0},
    "linear": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "longrope": {
        "rope_type": "longrope",
        "factor": 4.0,
        "original_max_position_embeddings": 64,
        "short_factor": [1.0 + 0.05 * i for i in range(8)],
        "long_factor": [1.0 + 0.5 * i for i in range(8)],
    },
}
"""One entry a rope type, for `rope_parameters` of a model with heads of 16 channels."""

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|pad|>"}

TRAINING_TEXT = (
    "The capital of France is Paris. The quick brown fox jumps over the lazy dog, and the dog does not mind. "
    "def main(): return 0 — naïve façade, 東京, Привет мир, 🎈 and what else there is between a comma and a full stop."
)


def make_llama(
    path: Path,
    *,
    rope: str | Mapping[str, Any] = "default",
    tied: bool = False,
    shards: int = 1,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    tokenizer: bool = True,
    **config: Any,
) -> Path:
    """Llama: 2 layers, 4 heads of 16 channels over 2 kv heads. `config` overrides keys of LlamaConfig."""
    from transformers import LlamaConfig, LlamaForCausalLM

    settings = {**_sizes(), "rope_parameters": _rope(rope), "tie_word_embeddings": tied, **config}
    return _save(path, LlamaForCausalLM(LlamaConfig(**settings)), seed, dtype, shards=shards, tokenizer=tokenizer)


def make_mistral(
    path: Path,
    *,
    window: int | None = 24,
    rope: str | Mapping[str, Any] = "default",
    shards: int = 1,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    tokenizer: bool = True,
    **config: Any,
) -> Path:
    """Mistral: as `make_llama`, with a sliding window."""
    from transformers import MistralConfig, MistralForCausalLM

    settings = {**_sizes(), "rope_parameters": _rope(rope), "sliding_window": window, **config}
    return _save(path, MistralForCausalLM(MistralConfig(**settings)), seed, dtype, shards=shards, tokenizer=tokenizer)


def make_gemma3(
    path: Path,
    *,
    window: int = 12,
    shards: int = 1,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    tokenizer: bool = True,
    **config: Any,
) -> Path:
    """Gemma 3: 3 layers, two with a sliding window and then one without, 4 heads of 16 channels over 1 kv head."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    settings = {
        **_sizes(),
        "num_hidden_layers": 3,
        "num_key_value_heads": 1,
        "sliding_window": window,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
        "query_pre_attn_scalar": 24,
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "rope_theta": 5000.0, "factor": 2.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
        },
        **config,
    }
    return _save(path, Gemma3ForCausalLM(Gemma3TextConfig(**settings)), seed, dtype, shards=shards, tokenizer=tokenizer)


def make_tokenizer(path: Path) -> Path:
    """A byte-level BPE of at most 320 tokens with a chat template: tokenizer.json and tokenizer_config.json."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[AddedToken(text, special=True) for text in SPECIAL.values()],
        show_progress=False,
    )
    library.train_from_iterator([TRAINING_TEXT], trainer)
    path.mkdir(parents=True, exist_ok=True)
    library.save(str(path / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": CHAT_TEMPLATE, **SPECIAL}
    (path / "tokenizer_config.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")
    return path


def _sizes() -> dict[str, Any]:
    return {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 64,
        "intermediate_size": 112,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": MAX_POSITIONS,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 2,
    }


def _rope(rope: str | Mapping[str, Any]) -> dict[str, Any]:
    chosen = ROPES[rope] if isinstance(rope, str) else rope
    return {"rope_theta": 10000.0, **chosen}


def _save(path: Path, model: PreTrainedModel, seed: int, dtype: torch.dtype, *, shards: int, tokenizer: bool) -> Path:
    _randomise(model, seed)
    num_bytes = sum(parameter.numel() for parameter in model.parameters()) * dtype.itemsize
    largest = max(parameter.numel() for parameter in model.parameters()) * dtype.itemsize
    limit = num_bytes + 1 if shards == 1 else max(largest, math.ceil(num_bytes / shards))
    model.to(dtype).save_pretrained(path, max_shard_size=limit)
    if tokenizer:
        make_tokenizer(path)
    return path


@torch.no_grad()
def _randomise(model: PreTrainedModel, seed: int) -> None:
    """Matrices that keep the size of what goes through them, and norms that are not all alike."""
    rng = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            parameter.add_(torch.randn(parameter.shape, generator=rng), alpha=0.2)
        else:
            scale = 1.0 if "embed" in name else 1.5 / math.sqrt(parameter.shape[1])
            parameter.copy_(torch.randn(parameter.shape, generator=rng) * scale)
