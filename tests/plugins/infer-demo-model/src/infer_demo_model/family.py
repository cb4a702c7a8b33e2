"""The plugin: facts, model and weight map of the family."""

from __future__ import annotations

from torch import nn

from infer_api.layers import LayerFactory
from infer_api.specs import CheckpointConfig, ModelFacts
from infer_api.weights import RowRange, WeightMap, WeightRule
from infer_demo_model.config import DemoConfig
from infer_demo_model.model import DemoModel

__all__ = ["DemoFamily"]


class DemoFamily:
    """Checkpoints of DemoForCausalLM. The family has no options."""

    def __init__(self, options: None = None) -> None:
        assert options is None, "the manifest declares no options"

    def facts(self, config: CheckpointConfig) -> ModelFacts:
        """Read config.json. Raises ModelError naming the file and the key at fault."""
        own = DemoConfig.read(config)
        return ModelFacts(
            architecture=config.architecture,
            dialect=config.dialect,
            num_layers=own.num_blocks,
            width=own.stream_width,
            vocab_size=own.vocab_size,
            max_positions=own.max_tokens,
            tied=own.tied,
            dtype=own.dtype,
            plugin=own,
        )

    def build(self, facts: ModelFacts, make: LayerFactory) -> nn.Module:
        """The model without weights."""
        return DemoModel(facts.plugin, make)

    def weights(self, facts: ModelFacts) -> WeightMap:
        """The checkpoint stores q, k and v of a block as one matrix, and gate and up as another; we keep them apart."""
        config: DemoConfig = facts.plugin
        q_width, kv_width = config.query_heads * config.head_width, config.key_heads * config.head_width
        stored, block = "decoder.{i}.attend.in.weight", "blocks.{i}"
        rules = [
            WeightRule("embed", "tokens.weight"),
            WeightRule(f"{block}.norm", "decoder.{i}.norm.weight"),
            WeightRule(f"{block}.qkv#q", stored, RowRange(0, q_width)),
            WeightRule(f"{block}.qkv#k", stored, RowRange(q_width, kv_width)),
            WeightRule(f"{block}.qkv#v", stored, RowRange(q_width + kv_width, kv_width)),
            WeightRule(f"{block}.mix", "decoder.{i}.attend.out.weight"),
            WeightRule(f"{block}.gate_up#gate", "decoder.{i}.think.in.weight", RowRange(0, config.hidden_width)),
            WeightRule(
                f"{block}.gate_up#up", "decoder.{i}.think.in.weight", RowRange(config.hidden_width, config.hidden_width)
            ),
            WeightRule(f"{block}.down", "decoder.{i}.think.out.weight"),
            WeightRule("norm", "last_norm.weight"),
        ]
        if not config.tied:
            rules.append(WeightRule("head", "head.weight"))
        return WeightMap(tuple(rules))
