"""Gemma 3 (arXiv:2503.19786): normalised queries and keys, a norm before and after each part of a block, and
layers with a short window between layers that see everything.

Letters: T tokens, R rows to sample, D width, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from infer_api.layers import LayerFactory, Norm, Rotary
from infer_api.specs import AttentionSpec, Part
from infer_model_gemma.config import GemmaConfig

__all__ = ["GemmaModel"]


class Attention(nn.Module):
    """Causal attention; each head's query and key are normalised before rope."""

    def __init__(self, cfg: GemmaConfig, make: LayerFactory, at: str, window: int | None, rope: Rotary) -> None:
        super().__init__()
        heads_width, groups_width = cfg.num_heads * cfg.head_size, cfg.num_kv_heads * cfg.head_size
        parts = Part("q", heads_width), Part("k", groups_width), Part("v", groups_width)
        spec = AttentionSpec(
            cfg.num_heads, cfg.num_kv_heads, cfg.head_size, cfg.attn_scale, window=window, softcap=cfg.attn_softcap
        )
        self.head_size = cfg.head_size
        self.qkv = make.linear(f"{at}.qkv", cfg.width, parts, shard="output", bias=cfg.attn_bias)
        self.q_norm = make.norm(f"{at}.q_norm", cfg.head_size, cfg.norm_eps, cfg.norm_style)
        self.k_norm = make.norm(f"{at}.k_norm", cfg.head_size, cfg.norm_eps, cfg.norm_style)
        self.attend = make.attention(at, spec, rope)
        self.o = make.linear(f"{at}.o", heads_width, cfg.width, shard="input", bias=cfg.attn_bias)

    def forward(self, x_TD: Tensor) -> Tensor:
        q, k, v = self.qkv.split(self.qkv(x_TD))
        q, k = self._per_head(self.q_norm, q), self._per_head(self.k_norm, k)
        return self.o(self.attend(q, k, v))

    def _per_head(self, norm: Norm, x: Tensor) -> Tensor:
        return norm(x.unflatten(-1, (-1, self.head_size))).flatten(-2)


class Mlp(nn.Module):
    """down(gelu(gate(x)) · up(x))."""

    def __init__(self, cfg: GemmaConfig, make: LayerFactory, at: str) -> None:
        super().__init__()
        parts = Part("gate", cfg.ffn_width), Part("up", cfg.ffn_width)
        self.gate_up = make.linear(f"{at}.gate_up", cfg.width, parts, shard="output", epilogue="gelu_tanh_mul")
        self.down = make.linear(f"{at}.down", cfg.ffn_width, cfg.width, shard="input")

    def forward(self, x_TD: Tensor) -> Tensor:
        return self.down(self.gate_up(x_TD))


class Layer(nn.Module):
    """One block. `residual` runs beside x, so that the norms before each part can add and normalise in one go."""

    def __init__(self, cfg: GemmaConfig, make: LayerFactory, at: str, window: int | None, rope: Rotary) -> None:
        super().__init__()
        norm = cfg.width, cfg.norm_eps, cfg.norm_style
        self.attn_norm = make.norm(f"{at}.attn_norm", *norm)
        self.attn = Attention(cfg, make, f"{at}.attn", window, rope)
        self.attn_post_norm = make.norm(f"{at}.attn_post_norm", *norm)
        self.mlp_norm = make.norm(f"{at}.mlp_norm", *norm)
        self.mlp = Mlp(cfg, make, f"{at}.mlp")
        self.mlp_post_norm = make.norm(f"{at}.mlp_post_norm", *norm)

    def forward(self, x_TD: Tensor, residual_TD: Tensor | None) -> tuple[Tensor, Tensor]:
        x_TD, residual_TD = self.attn_norm.add(x_TD, residual_TD)
        x_TD, residual_TD = self.mlp_norm.add(self.attn_post_norm(self.attn(x_TD)), residual_TD)
        return self.mlp_post_norm(self.mlp(x_TD)), residual_TD


class GemmaModel(nn.Module):
    """Scaled embedding, blocks, norm, head. Satisfies `infer_api.models.Model`."""

    def __init__(self, cfg: GemmaConfig, make: LayerFactory) -> None:
        super().__init__()
        self.embed_scale = cfg.width**0.5
        self.final_softcap = cfg.final_softcap
        self.table = make.embedding("embed", cfg.vocab_size, cfg.width, head="head", tied=cfg.tied)
        global_rope, local_rope = make.rotary(cfg.global_rope), make.rotary(cfg.local_rope)
        self.layers = nn.ModuleList(
            Layer(cfg, make, f"layers.{index}", window, global_rope if window is None else local_rope)
            for index, window in enumerate(cfg.windows)
        )
        self.norm = make.norm("norm", cfg.width, cfg.norm_eps, cfg.norm_style)

    def embed(self, ids_T: Tensor) -> Tensor:
        """Token ids [T] → x [T, D]. The scale is rounded to the activation type, as in training."""
        x_TD = self.table(ids_T)
        return x_TD * float(torch.tensor(self.embed_scale, dtype=x_TD.dtype))

    def forward(self, x_TD: Tensor, positions_T: Tensor) -> Tensor:
        """x [T, D] → hidden states [T, D]. Positions reach the attention layers through the factory's step."""
        residual_TD: Tensor | None = None
        for layer in self.layers:
            x_TD, residual_TD = layer(x_TD, residual_TD)
        return self.norm.add(x_TD, residual_TD)[0]

    def logits(self, h_RD: Tensor) -> Tensor:
        """Hidden states [R, D] → scores [R, V]."""
        scores_RV = self.table.logits(h_RD)
        if self.final_softcap is None:
            return scores_RV
        return torch.tanh(scores_RV / self.final_softcap) * self.final_softcap
