"""Which stored tensor fills which slot, in both dialects."""

from __future__ import annotations

from infer_api.weights import Ignore, WeightMap, WeightRule
from infer_model_gemma.config import GemmaConfig

__all__ = ["gguf_weights", "hf_weights"]

LAYER = {
    "attn_norm": ("input_layernorm", "attn_norm"),
    "attn.qkv#q": ("self_attn.q_proj", "attn_q"),
    "attn.qkv#k": ("self_attn.k_proj", "attn_k"),
    "attn.qkv#v": ("self_attn.v_proj", "attn_v"),
    "attn.q_norm": ("self_attn.q_norm", "attn_q_norm"),
    "attn.k_norm": ("self_attn.k_norm", "attn_k_norm"),
    "attn.o": ("self_attn.o_proj", "attn_output"),
    "attn_post_norm": ("post_attention_layernorm", "post_attention_norm"),
    "mlp_norm": ("pre_feedforward_layernorm", "ffn_norm"),
    "mlp.gate_up#gate": ("mlp.gate_proj", "ffn_gate"),
    "mlp.gate_up#up": ("mlp.up_proj", "ffn_up"),
    "mlp.down": ("mlp.down_proj", "ffn_down"),
    "mlp_post_norm": ("post_feedforward_layernorm", "post_ffw_norm"),
}
"""Slot of a layer → its name in the `hf` and the `gguf` dialect."""
BIASED = ("attn.qkv#q", "attn.qkv#k", "attn.qkv#v", "attn.o")
IMAGES = "belongs to the image part of a multimodal checkpoint, and only text is served"


def hf_weights(cfg: GemmaConfig) -> WeightMap:
    """Names as Hugging Face saves them, behind the prefix of the checkpoint at hand."""
    at = cfg.prefix
    # The oldest layout keeps the head beside the text model, below the same prefix.
    head = "language_model.lm_head.weight" if at.startswith("language_model.") else "lm_head.weight"
    rules = [
        WeightRule("embed", f"{at}embed_tokens.weight"),
        WeightRule("norm", f"{at}norm.weight"),
        WeightRule("head", head, optional=cfg.tied),
    ]
    rules += [
        WeightRule(f"layers.{{i}}.{slot}", f"{at}layers.{{i}}.{name}.weight") for slot, (name, _) in LAYER.items()
    ]
    if cfg.attn_bias:
        rules += [WeightRule(f"layers.{{i}}.{s}.bias", f"{at}layers.{{i}}.{LAYER[s][0]}.bias") for s in BIASED]
    patterns = ("vision_tower.*", "model.vision_tower.*", "multi_modal_projector.*", "model.multi_modal_projector.*")
    return WeightMap(tuple(rules), tuple(Ignore(pattern, IMAGES) for pattern in patterns))


def gguf_weights(cfg: GemmaConfig) -> WeightMap:
    """Names of the GGUF architecture `gemma3`."""
    rules = [
        WeightRule("embed", "token_embd.weight"),
        WeightRule("norm", "output_norm.weight"),
        WeightRule("head", "output.weight", optional=cfg.tied),
    ]
    rules += [WeightRule(f"layers.{{i}}.{slot}", f"blk.{{i}}.{name}.weight") for slot, (_, name) in LAYER.items()]
    return WeightMap(tuple(rules))
