"""The LayerFactory: what a model asks for becomes layers bound to ops, a quantization method and the step slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from infer.model.layers import CoreAttention, EmbeddingLayer, LinearLayer, NormLayer, StepSlot, WeightedLayer
from infer.model.rotary import RotaryTable
from infer.ops.table import OpTable
from infer_api.attention import AttentionLayer
from infer_api.errors import ModelError
from infer_api.layers import Rotary
from infer_api.ops import OpImpl
from infer_api.quantization import QuantMethod
from infer_api.rope import RopeSpec
from infer_api.specs import (
    AttentionSpec,
    EmbeddingSpec,
    Epilogue,
    KVSpec,
    KVTensor,
    LinearSpec,
    NormStyle,
    Part,
    Retain,
    Shard,
)

__all__ = ["CoreLayerFactory"]


class CoreLayerFactory:
    """Builds and remembers the layers of one model. Raises ModelError when two layers get the same name.

    `layers` have weights to be loaded, by name; `attention_layers` await their cache tensors in `kv`; `kv_specs`
    say what each attention layer keeps of a sequence (encoder layers keep nothing and are left out).
    """

    def __init__(
        self, quant: QuantMethod, ops: OpTable, device: torch.device, dtype: torch.dtype, max_seq_tokens: int
    ) -> None:
        self.step = StepSlot()
        self.device = device
        self.dtype = dtype
        self.layers: dict[str, WeightedLayer] = {}
        self.attention_layers: dict[str, AttentionLayer] = {}
        self.kv_specs: dict[str, KVSpec] = {}
        self._quant = quant
        self._ops = ops
        self._max_seq_tokens = max_seq_tokens
        self._rotaries: dict[RopeSpec, RotaryTable] = {}

    def linear(
        self,
        name: str,
        d_in: int,
        parts: int | Sequence[Part],
        *,
        shard: Shard = "none",
        bias: bool = False,
        epilogue: Epilogue = "none",
    ) -> LinearLayer:
        named = (Part("", parts),) if isinstance(parts, int) else tuple(parts)
        spec = LinearSpec(name, d_in, named, shard, bias, epilogue)
        layer = LinearLayer(spec, self._quant.linear(spec), self._ops)
        self._remember(name, layer)
        return layer

    def embedding(
        self, name: str, vocab_size: int, width: int, *, head: str | None = None, tied: bool = False
    ) -> EmbeddingLayer:
        layer = EmbeddingLayer(EmbeddingSpec(name, vocab_size, width, head, tied), self._quant)
        self._remember(name, layer)
        return layer

    def norm(self, name: str, width: int, eps: float, style: NormStyle = "rms") -> NormLayer:
        layer = NormLayer(name, width, eps, style, self._ops)
        self._remember(name, layer)
        return layer

    def rotary(self, spec: RopeSpec) -> RotaryTable:
        if spec not in self._rotaries:
            self._rotaries[spec] = RotaryTable(spec, self._max_seq_tokens, self.device)
        return self._rotaries[spec]

    def attention(self, name: str, spec: AttentionSpec, rope: Rotary | None) -> CoreAttention:
        if name in self.attention_layers:
            raise ModelError(f"two attention layers of the model are called {name!r}")
        layer = AttentionLayer(name, spec, rope, {})
        self.attention_layers[name] = layer
        if spec.causal:
            tensors = tuple(KVTensor(each, spec.num_kv_heads, spec.head_size) for each in ("k", "v"))
            self.kv_specs[name] = KVSpec(tensors, retain=Retain(spec.window))
        return CoreAttention(layer, self.step)

    def op(self, name: str, **static: Any) -> OpImpl:
        return self._ops.bind(name, **static)

    def _remember(self, name: str, layer: WeightedLayer) -> None:
        if name in self.layers:
            raise ModelError(f"two layers of the model have the weight slot {name!r}")
        self.layers[name] = layer
