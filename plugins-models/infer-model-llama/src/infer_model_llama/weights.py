"""Which stored tensor fills which slot, in both dialects."""

from __future__ import annotations

from infer_api.weights import Ignore, InterleavedRows, WeightMap, WeightRule
from infer_model_llama.config import ROPE_FACTORS, LlamaConfig

__all__ = ["gguf_weights", "hf_weights"]

LINEARS = {
    "attn.qkv#q": ("self_attn.q_proj", "attn_q"),
    "attn.qkv#k": ("self_attn.k_proj", "attn_k"),
    "attn.qkv#v": ("self_attn.v_proj", "attn_v"),
    "attn.o": ("self_attn.o_proj", "attn_output"),
    "mlp.gate_up#gate": ("mlp.gate_proj", "ffn_gate"),
    "mlp.gate_up#up": ("mlp.up_proj", "ffn_up"),
    "mlp.down": ("mlp.down_proj", "ffn_down"),
}
"""Slot of a layer → its name in the `hf` and the `gguf` dialect."""


def hf_weights(cfg: LlamaConfig) -> WeightMap:
    """Names as Hugging Face saves them."""
    rules = [
        WeightRule("embed", "model.embed_tokens.weight"),
        WeightRule("norm", "model.norm.weight"),
        WeightRule("head", "lm_head.weight", optional=cfg.tied),
        WeightRule("layers.{i}.attn_norm", "model.layers.{i}.input_layernorm.weight"),
        WeightRule("layers.{i}.mlp_norm", "model.layers.{i}.post_attention_layernorm.weight"),
    ]
    for slot, (name, _) in LINEARS.items():
        rules.append(WeightRule(f"layers.{{i}}.{slot}", f"model.layers.{{i}}.{name}.weight"))
        if _has_bias(cfg, slot):
            rules.append(WeightRule(f"layers.{{i}}.{slot}.bias", f"model.layers.{{i}}.{name}.bias"))
    ignored = Ignore(
        "*.rotary_emb.inv_freq", "old checkpoints store the rope's frequencies, which follow from the config"
    )
    return WeightMap(tuple(rules), (ignored,))


def gguf_weights(cfg: LlamaConfig) -> WeightMap:
    """Names of the GGUF architecture `llama`, whose q and k have interleaved rows."""
    rules = [
        WeightRule("embed", "token_embd.weight"),
        WeightRule("norm", "output_norm.weight"),
        WeightRule("head", "output.weight", optional=cfg.tied),
        WeightRule("layers.{i}.attn_norm", "blk.{i}.attn_norm.weight"),
        WeightRule("layers.{i}.mlp_norm", "blk.{i}.ffn_norm.weight"),
    ]
    heads = {"attn.qkv#q": cfg.num_heads, "attn.qkv#k": cfg.num_kv_heads}
    for slot, (_, name) in LINEARS.items():
        rows = InterleavedRows(heads[slot]) if slot in heads else None
        rules.append(WeightRule(f"layers.{{i}}.{slot}", f"blk.{{i}}.{name}.weight", rows))
        if _has_bias(cfg, slot):
            rules.append(WeightRule(f"layers.{{i}}.{slot}.bias", f"blk.{{i}}.{name}.bias", rows))
    return WeightMap(tuple(rules), (Ignore(ROPE_FACTORS, "the rope took its values from the configuration"),))


def _has_bias(cfg: LlamaConfig, slot: str) -> bool:
    if slot.startswith("mlp."):
        return cfg.mlp_bias
    return cfg.o_bias if slot == "attn.o" else cfg.qkv_bias
