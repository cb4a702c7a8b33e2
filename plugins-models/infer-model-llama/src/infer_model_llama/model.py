"""A decoder of pre-normalised attention and gated MLP blocks (arXiv:2302.13971, arXiv:2310.06825).

Letters: T tokens, R rows to sample, D width, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor, nn

from infer_api.layers import LayerFactory, Rotary
from infer_api.specs import AttentionSpec, Part
from infer_model_llama.config import LlamaConfig

__all__ = ["LlamaModel"]


class Attention(nn.Module):
    """Causal attention with rope, over grouped heads."""

    def __init__(self, cfg: LlamaConfig, make: LayerFactory, at: str, rope: Rotary) -> None:
        super().__init__()
        heads_width, groups_width = cfg.num_heads * cfg.head_size, cfg.num_kv_heads * cfg.head_size
        parts = Part("q", heads_width), Part("k", groups_width), Part("v", groups_width)
        spec = AttentionSpec(
            cfg.num_heads, cfg.num_kv_heads, cfg.head_size, scale=cfg.head_size**-0.5, window=cfg.window
        )
        self.qkv = make.linear(f"{at}.qkv", cfg.width, parts, shard="output", bias=cfg.qkv_bias)
        self.attend = make.attention(at, spec, rope)
        self.o = make.linear(f"{at}.o", heads_width, cfg.width, shard="input", bias=cfg.o_bias)

    def forward(self, x_TD: Tensor) -> Tensor:
        q, k, v = self.qkv.split(self.qkv(x_TD))
        return self.o(self.attend(q, k, v))


class Mlp(nn.Module):
    """down(act(gate(x)) · up(x))."""

    def __init__(self, cfg: LlamaConfig, make: LayerFactory, at: str) -> None:
        super().__init__()
        parts = Part("gate", cfg.ffn_width), Part("up", cfg.ffn_width)
        self.gate_up = make.linear(
            f"{at}.gate_up", cfg.width, parts, shard="output", bias=cfg.mlp_bias, epilogue=cfg.activation
        )
        self.down = make.linear(f"{at}.down", cfg.ffn_width, cfg.width, shard="input", bias=cfg.mlp_bias)

    def forward(self, x_TD: Tensor) -> Tensor:
        return self.down(self.gate_up(x_TD))


class Layer(nn.Module):
    """One block. `residual` runs beside x, so that each norm can add and normalise in one go."""

    def __init__(self, cfg: LlamaConfig, make: LayerFactory, at: str, rope: Rotary) -> None:
        super().__init__()
        self.attn_norm = make.norm(f"{at}.attn_norm", cfg.width, cfg.norm_eps)
        self.attn = Attention(cfg, make, f"{at}.attn", rope)
        self.mlp_norm = make.norm(f"{at}.mlp_norm", cfg.width, cfg.norm_eps)
        self.mlp = Mlp(cfg, make, f"{at}.mlp")

    def forward(self, x_TD: Tensor, residual_TD: Tensor | None) -> tuple[Tensor, Tensor]:
        x_TD, residual_TD = self.attn_norm.add(x_TD, residual_TD)
        x_TD, residual_TD = self.mlp_norm.add(self.attn(x_TD), residual_TD)
        return self.mlp(x_TD), residual_TD


class LlamaModel(nn.Module):
    """Embedding, blocks, norm, head. Satisfies `infer_api.models.Model`."""

    def __init__(self, cfg: LlamaConfig, make: LayerFactory) -> None:
        super().__init__()
        rope = make.rotary(cfg.rope)
        self.table = make.embedding("embed", cfg.vocab_size, cfg.width, head="head", tied=cfg.tied)
        self.layers = nn.ModuleList(Layer(cfg, make, f"layers.{index}", rope) for index in range(cfg.num_layers))
        self.norm = make.norm("norm", cfg.width, cfg.norm_eps)

    def embed(self, ids_T: Tensor) -> Tensor:
        """Token ids [T] → x [T, D]."""
        return self.table(ids_T)

    def forward(self, x_TD: Tensor, positions_T: Tensor) -> Tensor:
        """x [T, D] → hidden states [T, D]. Positions reach the attention layers through the factory's step."""
        residual_TD: Tensor | None = None
        for layer in self.layers:
            x_TD, residual_TD = layer(x_TD, residual_TD)
        return self.norm.add(x_TD, residual_TD)[0]

    def logits(self, h_RD: Tensor) -> Tensor:
        """Hidden states [R, D] → scores [R, V]."""
        return self.table.logits(h_RD)
