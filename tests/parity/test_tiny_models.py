"""Tiny random models of every architecture and rope type, greedy, against transformers in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from infer import LLM, SamplingParams
from parity import TIE, first_difference, random_prompts, reference_tokens

VOCAB = 320
COMMON: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ROPES: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 2.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "longrope": {
        "rope_type": "longrope",
        "short_factor": [1.0, 1.1, 1.2, 1.3],
        "long_factor": [2.0, 2.5, 3.0, 3.5],
        "factor": 2.0,
        "original_max_position_embeddings": 128,
    },
}
LENGTHS = (1, 5, 17, 40, 63, 90)


def save(config: Any, folder: Path, seed: int) -> Any:
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    model.save_pretrained(folder)
    return model


def check(model: Any, folder: Path, *, count: int = 24, **options: Any) -> None:
    """Together in one batch and through small chunks, both must give the reference's tokens."""
    prompts = random_prompts(VOCAB, LENGTHS, seed=7)
    want = [reference_tokens(model, prompt, count) for prompt in prompts]
    sampling = SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True)
    for budget in (2048, 16):
        options |= {"dtype": "float32", "kv_cache_memory": "64MiB", "max_num_seqs": 8}
        with LLM(str(folder), max_num_batched_tokens=budget, **options) as llm:
            found = [reply.outputs[0].token_ids for reply in llm.generate(prompts, sampling)]
        for ours, (theirs, logits) in zip(found, want, strict=True):
            difference = first_difference(ours, theirs, logits)
            assert difference is None or difference.gap < TIE, difference


@pytest.mark.parametrize(("rope", "tied"), [*((rope, False) for rope in ROPES), ("llama3", True)])
def test_llama_with_each_rope_type_equals_transformers(rope: str, tied: bool, tmp_path: Path) -> None:
    from transformers import LlamaConfig

    parameters = {"rope_theta": 5000.0, **ROPES[rope]}
    config = LlamaConfig(**COMMON, tie_word_embeddings=tied, rope_parameters=parameters)
    check(save(config, tmp_path, seed=1), tmp_path)


def test_llama_with_biases_equals_transformers(tmp_path: Path) -> None:
    from transformers import LlamaConfig

    config = LlamaConfig(**COMMON, attention_bias=True, mlp_bias=True)
    model = save(config, tmp_path, seed=2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0, 0.3)
    model.save_pretrained(tmp_path)
    check(model, tmp_path)


@pytest.mark.parametrize("window", [8, None])
def test_mistral_with_and_without_a_sliding_window_equals_transformers(window: int | None, tmp_path: Path) -> None:
    from transformers import MistralConfig

    config = MistralConfig(**COMMON, head_dim=16, sliding_window=window)
    check(save(config, tmp_path, seed=3), tmp_path)


def test_gemma_3_equals_transformers(tmp_path: Path) -> None:
    from transformers import Gemma3TextConfig

    config = Gemma3TextConfig(
        **{**COMMON, "num_hidden_layers": 7},
        head_dim=16,
        sliding_window=12,
        query_pre_attn_scalar=24,
    )
    model = save(config, tmp_path, seed=4)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.normal_(0, 0.3)
    model.save_pretrained(tmp_path)
    check(model, tmp_path)
