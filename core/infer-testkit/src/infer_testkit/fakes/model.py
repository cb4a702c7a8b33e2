"""A model family of two layers, small enough to compute by hand, and a random checkpoint of it.

Letters: T tokens, R rows to sample, D width, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from infer_api.layers import LayerFactory
from infer_api.rope import RopeSpec
from infer_api.specs import AttentionSpec, CheckpointConfig, ModelFacts, Part
from infer_api.weights import Ignore, WeightMap, WeightRule
from infer_testkit.fakes.checkpoint import MemoryCheckpoint

__all__ = ["TwoLayerFamily", "two_layer_checkpoint"]

ARCHITECTURE = "TwoLayerForCausalLM"
NUM_LAYERS, HEADS, HEAD_SIZE, WIDTH = 2, 2, 8, 16


class TwoLayerBlock(nn.Module):
    """x + attention(norm(x)), without an output projection."""

    def __init__(self, facts: ModelFacts, make: LayerFactory, at: str) -> None:
        super().__init__()
        spec, rope = AttentionSpec(HEADS, HEADS, HEAD_SIZE, HEAD_SIZE**-0.5), make.rotary(RopeSpec(HEAD_SIZE))
        self.norm = make.norm(f"{at}.norm", facts.width, 1e-6)
        self.qkv = make.linear(f"{at}.qkv", facts.width, [Part(name, HEADS * HEAD_SIZE) for name in "qkv"])
        self.attend = make.attention(at, spec, rope)

    def forward(self, x_TD: Tensor) -> Tensor:
        q, k, v = self.qkv.split(self.qkv(self.norm(x_TD)))
        return x_TD + self.attend(q, k, v)


class TwoLayerModel(nn.Module):
    """Embedding, two layers of attention beside a residual, norm, tied head."""

    def __init__(self, facts: ModelFacts, make: LayerFactory) -> None:
        super().__init__()
        self.table = make.embedding("embed", facts.vocab_size, facts.width, head="head", tied=True)
        self.layers = nn.ModuleList(TwoLayerBlock(facts, make, f"layers.{i}") for i in range(facts.num_layers))
        self.norm = make.norm("norm", facts.width, 1e-6)

    def embed(self, ids_T: Tensor) -> Tensor:
        return self.table(ids_T)

    def forward(self, x_TD: Tensor, positions_T: Tensor) -> Tensor:
        for layer in self.layers:
            x_TD = layer(x_TD)
        return self.norm(x_TD)

    def logits(self, h_RD: Tensor) -> Tensor:
        return self.table.logits(h_RD)


class TwoLayerFamily:
    """Implements `infer_api.models.ModelFamily`."""

    def __init__(self, options: Any = None) -> None:
        self.options = options

    def facts(self, config: CheckpointConfig) -> ModelFacts:
        return ModelFacts(
            architecture=config.architecture,
            dialect=config.dialect,
            num_layers=NUM_LAYERS,
            width=WIDTH,
            vocab_size=config.require_int("vocab_size"),
            max_positions=config.require_int("max_position_embeddings"),
            tied=True,
            dtype="float32",
        )

    def build(self, facts: ModelFacts, make: LayerFactory) -> TwoLayerModel:
        return TwoLayerModel(facts, make)

    def weights(self, facts: ModelFacts) -> WeightMap:
        rules = [
            WeightRule("embed", "embed.weight"),
            WeightRule("norm", "norm.weight"),
            WeightRule("head", "head.weight", optional=True),
            WeightRule("layers.{i}.norm", "layers.{i}.norm.weight"),
        ]
        rules += [WeightRule(f"layers.{{i}}.qkv#{name}", f"layers.{{i}}.{name}.weight") for name in "qkv"]
        return WeightMap(tuple(rules), (Ignore("unused.*", "to try ignoring"),))


def two_layer_checkpoint(*, vocab_size: int = 259, seed: int = 0, **more: Tensor) -> MemoryCheckpoint:
    """Random weights; the vocabulary fits `infer_testkit.fakes.tokenizer`. `more` adds or replaces tensors."""
    rng = torch.Generator().manual_seed(seed)
    tensors = {"embed.weight": torch.randn(vocab_size, WIDTH, generator=rng), "norm.weight": torch.ones(WIDTH)}
    for index in range(NUM_LAYERS):
        tensors[f"layers.{index}.norm.weight"] = 1 + 0.1 * torch.randn(WIDTH, generator=rng)
        for name in "qkv":
            shape = (HEADS * HEAD_SIZE, WIDTH)
            tensors[f"layers.{index}.{name}.weight"] = torch.randn(shape, generator=rng) * WIDTH**-0.5
    values = {"architectures": [ARCHITECTURE], "vocab_size": vocab_size, "max_position_embeddings": 256}
    return MemoryCheckpoint(values, {**tensors, **more})
