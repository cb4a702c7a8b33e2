from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from infer_api.errors import ModelError
from infer_model_llama.family import LlamaFamily
from infer_testkit.fakes.checkpoint import MemoryCheckpoint
from infer_testkit.model_run import ModelRun
from infer_testkit.plugin import make_plugin
from infer_testkit.tiny_checkpoints import make_llama

GGUF_NAMES = {
    "model.embed_tokens.": "token_embd.",
    "model.norm.": "output_norm.",
    "lm_head.": "output.",
    "model.layers.": "blk.",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
GGUF_KEYS = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 112,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.key_length": 16,
    "llama.attention.layer_norm_rms_epsilon": 1e-6,
    "llama.context_length": 256,
    "llama.rope.freq_base": 500.0,
    "llama.vocab_size": 320,
}


def interleaved(rows: Tensor, num_heads: int) -> Tensor:
    """Rows in GGUF's order: channel i and i + half of each head side by side."""
    halves = rows.view(num_heads, 2, -1, *rows.shape[1:])
    return halves.transpose(1, 2).reshape(rows.shape)


def as_gguf(tensors: dict[str, Tensor]) -> MemoryCheckpoint:
    renamed = {}
    for name, value in tensors.items():
        for old, new in GGUF_NAMES.items():
            name = name.replace(old, new)
        heads = {"attn_q": 4, "attn_k": 2}.get(name.split(".")[2] if name.startswith("blk") else "")
        renamed[name] = interleaved(value, heads) if heads else value
    return MemoryCheckpoint(GGUF_KEYS, renamed, dialect="gguf", architecture_key="general.architecture")


def as_hf(folder: Path, **extra: Tensor) -> MemoryCheckpoint:
    return MemoryCheckpoint(json.loads((folder / "config.json").read_text()), {**tensors_of(folder), **extra})


def tensors_of(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def logits(checkpoint: MemoryCheckpoint) -> Tensor:
    run = ModelRun(LlamaFamily(), checkpoint, make_plugin("quantization", "dense"))
    return run.step({"a": [3, 1, 4, 1, 5, 9, 2, 6]})["a"]


@pytest.mark.parametrize("more", [{}, {"tied": True}, {"attention_bias": True, "mlp_bias": True}])
def test_both_dialects_of_one_model_give_the_same_logits(tmp_path: Path, more: dict) -> None:
    folder = make_llama(tmp_path, tokenizer=False, **more)
    torch.testing.assert_close(logits(as_gguf(tensors_of(folder))), logits(as_hf(folder)), rtol=1e-5, atol=1e-5)


def test_stored_rope_frequencies_are_ignored(tmp_path: Path) -> None:
    folder = make_llama(tmp_path, tokenizer=False)
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(8)}
    assert torch.equal(logits(as_hf(folder, **extra)), logits(as_hf(folder)))


def test_a_tensor_that_belongs_nowhere_is_named(tmp_path: Path) -> None:
    folder = make_llama(tmp_path, tokenizer=False)
    with pytest.raises(ModelError, match=r"model\.layers\.0\.self_attn\.q_norm\.weight"):
        logits(as_hf(folder, **{"model.layers.0.self_attn.q_norm.weight": torch.ones(16)}))


def test_a_bias_that_the_configuration_does_not_mention_is_named(tmp_path: Path) -> None:
    folder = make_llama(tmp_path, tokenizer=False)
    with pytest.raises(ModelError, match=r"q_proj\.bias"):
        logits(as_hf(folder, **{"model.layers.0.self_attn.q_proj.bias": torch.ones(64)}))


def test_published_rope_factors_act_like_the_scaling_they_come_from(tmp_path: Path) -> None:
    folder = make_llama(tmp_path, rope={"rope_type": "linear", "factor": 3.0, "rope_theta": 500.0}, tokenizer=False)
    plain = as_gguf({**tensors_of(folder), "rope_freqs.weight": torch.full((8,), 3.0)})
    config = plain.config()
    published = MemoryCheckpoint(
        {**config.values, "rope_freqs.weight": [3.0] * 8},
        {info.name: plain.read(info.name).values for info in plain.tensors()},
        dialect="gguf",
        architecture_key="general.architecture",
    )
    torch.testing.assert_close(logits(published), logits(as_hf(folder)), rtol=1e-4, atol=1e-4)
