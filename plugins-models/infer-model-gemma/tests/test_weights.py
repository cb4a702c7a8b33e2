from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from infer_model_gemma.family import GemmaFamily
from infer_testkit.fakes.checkpoint import MemoryCheckpoint
from infer_testkit.model_run import ModelRun
from infer_testkit.plugin import make_plugin
from infer_testkit.tiny_checkpoints import make_gemma3

GGUF_NAMES = {
    "model.embed_tokens.": "token_embd.",
    "model.norm.": "output_norm.",
    "model.layers.": "blk.",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
GGUF_KEYS = {
    "general.architecture": "gemma3",
    "gemma3.block_count": 3,
    "gemma3.embedding_length": 64,
    "gemma3.feed_forward_length": 112,
    "gemma3.attention.head_count": 4,
    "gemma3.attention.head_count_kv": 1,
    "gemma3.attention.key_length": 16,
    "gemma3.attention.sliding_window": 12,
    "gemma3.attention.sliding_window_pattern": 3,
    "gemma3.attention.layer_norm_rms_epsilon": 1e-6,
    "gemma3.context_length": 256,
    "gemma3.rope.freq_base": 5000.0,
    "gemma3.rope.freq_base_swa": 300.0,
    "gemma3.rope.scaling.type": "linear",
    "gemma3.rope.scaling.factor": 2.0,
    "gemma3.vocab_size": 320,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_gemma3(tmp_path, tokenizer=False, query_pre_attn_scalar=16)


def tensors_of(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def config_of(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


def logits(checkpoint: MemoryCheckpoint) -> Tensor:
    run = ModelRun(GemmaFamily(), checkpoint, make_plugin("quantization", "dense"))
    return run.step({"a": list(range(3, 40))})["a"]


def test_both_dialects_of_one_model_give_the_same_logits(folder: Path) -> None:
    renamed = {}
    for name, value in tensors_of(folder).items():
        for old, new in GGUF_NAMES.items():
            name = name.replace(old, new)
        renamed[name] = value + 1 if value.dim() == 1 else value
    gguf = MemoryCheckpoint(GGUF_KEYS, renamed, dialect="gguf", architecture_key="general.architecture")
    hf = MemoryCheckpoint(config_of(folder), tensors_of(folder))
    torch.testing.assert_close(logits(gguf), logits(hf), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_the_text_part_of_a_multimodal_checkpoint_is_the_same_model(folder: Path, prefix: str) -> None:
    config, tensors = config_of(folder), tensors_of(folder)
    inner = {prefix + name.removeprefix("model."): value for name, value in tensors.items()}
    image = {"vision_tower.encoder.weight": torch.ones(2), "multi_modal_projector.x": torch.ones(2)}
    values = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": config}
    both = logits(MemoryCheckpoint(values, {**inner, **image})), logits(MemoryCheckpoint(config, tensors))
    assert torch.equal(*both)


def test_an_untied_head_has_a_slot_of_its_own(folder: Path) -> None:
    config, tensors = config_of(folder), tensors_of(folder)
    head = torch.randn(320, 64, generator=torch.Generator().manual_seed(1))
    untied = MemoryCheckpoint({**config, "tie_word_embeddings": False}, {**tensors, "lm_head.weight": head})
    assert not torch.allclose(logits(untied), logits(MemoryCheckpoint(config, tensors)))
