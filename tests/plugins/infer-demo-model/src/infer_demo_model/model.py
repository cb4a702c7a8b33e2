"""The model, as the paper would draw it. Letters: T tokens of the step, D stream width, R rows to sample, V vocabulary.

x ──┬───────────────────────────────── + ── scale_i · (attention(h) + mlp(h)) ──> next block
    └── norm ── h
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from infer_api.layers import LayerFactory
from infer_api.rope import RopeSpec
from infer_api.specs import AttentionSpec, Part
from infer_demo_model.config import DemoConfig

__all__ = ["DemoModel"]


class DemoBlock(nn.Module):
    """Attention and MLP read the same normalised input; their sum joins the stream, scaled by depth."""

    def __init__(self, config: DemoConfig, make: LayerFactory, index: int) -> None:
        super().__init__()
        at, width, head = f"blocks.{index}", config.stream_width, config.head_width
        q_width, kv_width = config.query_heads * head, config.key_heads * head
        self.scale = config.block_scale(index)
        self.norm = make.norm(f"{at}.norm", width, config.norm_eps)
        self.qkv = make.linear(
            f"{at}.qkv", width, (Part("q", q_width), Part("k", kv_width), Part("v", kv_width)), shard="output"
        )
        self.attention = make.attention(
            f"{at}.attention",
            AttentionSpec(config.query_heads, config.key_heads, head, scale=head**-0.5, window=config.window),
            make.rotary(RopeSpec(head, theta=config.rope_base, max_positions=config.max_tokens)),
        )
        self.mix = make.linear(f"{at}.mix", q_width, width, shard="input")
        hidden = (Part("gate", config.hidden_width), Part("up", config.hidden_width))
        self.gate_up = make.linear(f"{at}.gate_up", width, hidden, shard="output", epilogue="gelu_tanh_mul")
        self.down = make.linear(f"{at}.down", config.hidden_width, width, shard="input")

    def forward(self, x_TD: Tensor) -> Tensor:
        h_TD = self.norm(x_TD)
        attended_TD = self.mix(self.attention(*self.qkv.split(self.qkv(h_TD))))
        thought_TD = self.down(self.gate_up(h_TD))
        return x_TD + self.scale * (attended_TD + thought_TD)


class DemoModel(nn.Module):
    """Embedding, blocks, last norm, output head."""

    def __init__(self, config: DemoConfig, make: LayerFactory) -> None:
        super().__init__()
        head = None if config.tied else "head"
        self.table = make.embedding("embed", config.vocab_size, config.stream_width, head=head, tied=config.tied)
        self.blocks = nn.ModuleList(DemoBlock(config, make, index) for index in range(config.num_blocks))
        self.norm = make.norm("norm", config.stream_width, config.norm_eps)

    def embed(self, ids_T: Tensor) -> Tensor:
        """Token ids [T] → x [T, D]."""
        return self.table(ids_T)

    def forward(self, x_TD: Tensor, positions_T: Tensor) -> Tensor:
        """x [T, D] → hidden states [T, D] after the last norm. Positions reach attention through the step."""
        for block in self.blocks:
            x_TD = cast(Tensor, block(x_TD))
        return self.norm(x_TD)

    def logits(self, h_RD: Tensor) -> Tensor:
        """Hidden states [R, D] → scores [R, V]."""
        return self.table.logits(h_RD)
