"""The family as core sees it: facts, module, weight map."""

from __future__ import annotations

from typing import Any

from infer_api.layers import LayerFactory
from infer_api.specs import CheckpointConfig, ModelFacts
from infer_api.weights import WeightMap
from infer_model_gemma.config import GemmaConfig
from infer_model_gemma.model import GemmaModel
from infer_model_gemma.weights import gguf_weights, hf_weights

__all__ = ["GemmaFamily"]


class GemmaFamily:
    """Implements `infer_api.models.ModelFamily`."""

    def __init__(self, options: Any = None) -> None:
        self._options = options

    def facts(self, config: CheckpointConfig) -> ModelFacts:
        """Read the configuration. Raises ModelError naming file and key."""
        cfg = GemmaConfig.read(config)
        return ModelFacts(
            architecture=config.architecture,
            dialect=config.dialect,
            num_layers=cfg.num_layers,
            width=cfg.width,
            vocab_size=cfg.vocab_size,
            max_positions=cfg.max_positions,
            tied=cfg.tied,
            dtype=cfg.dtype,
            plugin=cfg,
        )

    def build(self, facts: ModelFacts, make: LayerFactory) -> GemmaModel:
        """The module, without weights."""
        return GemmaModel(facts.plugin, make)

    def weights(self, facts: ModelFacts) -> WeightMap:
        """The map of the checkpoint's dialect."""
        return gguf_weights(facts.plugin) if facts.dialect == "gguf" else hf_weights(facts.plugin)
