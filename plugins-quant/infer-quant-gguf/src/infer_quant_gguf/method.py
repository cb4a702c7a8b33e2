"""Linear layers and embeddings whose weights stay quantised as they are in a GGUF file.

In every step a chunk of a weight is decoded into a buffer small enough for the processor's cache and multiplied at
once; see `blocks` for the layout that makes decoding fast. Dimensions: T tokens, K input width, N output width,
V vocabulary, D width of the embedding, R rows of one segment.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from infer_api.errors import ModelError
from infer_api.loaders import Checkpoint, StoredTensor
from infer_api.quantization import Component, StoredPart
from infer_api.specs import EmbeddingSpec, LinearSpec, Part, Reason
from infer_quant_gguf.options import GgufQuantOptions
from infer_quant_gguf.scratch import Scratch
from infer_quant_gguf.segments import GgufWeights, build_weights

__all__ = ["GgufEmbedding", "GgufLinear", "GgufQuant"]


class GgufQuant:
    """Quantization method "gguf". One per model: all its layers share one set of scratch buffers."""

    def __init__(self, options: GgufQuantOptions | None = None) -> None:
        self._keep_packed = (options or GgufQuantOptions()).keep == "packed"
        self._scratch = Scratch()

    def match(self, checkpoint: Checkpoint) -> Reason | None:
        """Fits every checkpoint of the dialect "gguf"."""
        found = checkpoint.dialect()
        return None if found == "gguf" else Reason(f"the checkpoint is of the dialect {found!r}, not 'gguf'")

    def linear(self, spec: LinearSpec) -> GgufLinear:
        """The method for one linear layer."""
        return GgufLinear(spec, self._scratch, self._keep_packed)

    def embedding(self, spec: EmbeddingSpec) -> GgufEmbedding:
        """The method for one embedding table."""
        return GgufEmbedding(self._scratch, self._keep_packed)


class GgufLinear:
    """LinearMethod for parts of any mix of GGUF types."""

    def __init__(self, spec: LinearSpec, scratch: Scratch, keep_packed: bool) -> None:
        self._spec, self._scratch, self._keep_packed = spec, scratch, keep_packed

    def storage(self, spec: LinearSpec, part: Part) -> Sequence[Component]:
        """One tensor: blocks hold their scales."""
        return (Component("weight"),)

    def finalize(self, parts: Sequence[StoredPart], device: torch.device, dtype: torch.dtype) -> GgufWeights:
        """Join neighbours of one type into segments. Raises ModelError for a wrong shape or format."""
        tensors = []
        for stored in parts:
            tensor = stored.tensors["weight"]
            _check_shape(self._spec.slot(stored.part), tensor, (stored.part.d_out, self._spec.d_in))
            tensors.append(tensor)
        return build_weights(self._spec.name, tensors, device, dtype, keep_packed=self._keep_packed)

    def apply(self, x: Tensor, w: GgufWeights, bias: Tensor | None, out: Tensor | None = None) -> Tensor:
        """x [T, K] → [T, N], into `out` when given."""
        out = w.multiply(x, out, self._scratch)
        return out if bias is None else out.add_(bias)

    def dequantize(self, w: GgufWeights, rows: Tensor | None = None) -> Tensor:
        """Weight values [N, K] in float32, or the rows asked for."""
        return w.values(rows)


class GgufEmbedding:
    """EmbeddingMethod whose table stays packed; only the rows asked for are decoded by `lookup`."""

    def __init__(self, scratch: Scratch, keep_packed: bool) -> None:
        self._scratch, self._keep_packed = scratch, keep_packed

    def finalize(
        self, spec: EmbeddingSpec, table: StoredTensor, device: torch.device, dtype: torch.dtype
    ) -> GgufWeights:
        """Bring the table [V, D] into columns. Raises ModelError for a wrong shape or format."""
        _check_shape(spec.name, table, (spec.vocab_size, spec.width))
        return build_weights(spec.name, [table], device, dtype, keep_packed=self._keep_packed)

    def lookup(self, ids: Tensor, w: GgufWeights) -> Tensor:
        """ids [T] → rows [T, D] of the activation dtype."""
        return w.rows(ids, self._scratch)

    def logits(self, h: Tensor, w: GgufWeights, out: Tensor | None = None) -> Tensor:
        """h [R, D] → scores [R, V] of h's dtype, into `out` when given."""
        return w.multiply(h, out, self._scratch)


def _check_shape(slot: str, tensor: StoredTensor, expected: tuple[int, int]) -> None:
    if tuple(tensor.shape) != expected:
        name = getattr(tensor, "name", "its tensor")
        raise ModelError(f"{slot}: tensor {name!r} has the shape {list(tensor.shape)}, expected {list(expected)}")
