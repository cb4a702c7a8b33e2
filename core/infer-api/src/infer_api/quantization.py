"""Kind `quantization`: how weights are stored, and multiplied with.

One method serves a whole checkpoint. Core asks `linear`/`embedding` once per layer, reads the stored
tensors that `storage` names through the model's WeightMap, hands them to `finalize`, and calls
`apply` in every step. Order inside a linear, in core: base apply → adapter → bias → all-reduce; a
method never reduces. Letters: T tokens, K input width, N output width, V vocabulary, D width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from infer_api.specs import EmbeddingSpec, LinearSpec, Part, Reason

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from infer_api.loaders import Checkpoint, StoredTensor

__all__ = ["Component", "EmbeddingMethod", "LinearMethod", "QuantMethod", "StoredPart", "Weights"]

Weights = Any
"""A method's own object holding one layer's finished weights; opaque to core."""


@dataclass(frozen=True)
class Component:
    """One stored tensor that a part is made of. `suffix` replaces the ".weight" ending of the rule's source."""

    name: str
    suffix: str = ".weight"
    optional: bool = False


@dataclass(frozen=True)
class StoredPart:
    """A part with the tensors that `storage` asked for, by component name, rows already in logical order."""

    part: Part
    tensors: Mapping[str, StoredTensor]


class LinearMethod(Protocol):
    """Computes y = x Wᵀ (+ bias) for one linear layer with one or more parts."""

    def storage(self, spec: LinearSpec, part: Part) -> Sequence[Component]:
        """Stored tensors that `part` needs."""
        ...

    def finalize(self, parts: Sequence[StoredPart], device: torch.device, dtype: torch.dtype) -> Weights:
        """Bring stored parts into the form `apply` reads. Parts may differ in storage format.

        `dtype` is the activation type. Raises ModelError naming layer and tensor on a wrong shape or format.
        """
        ...

    def apply(self, x: Tensor, w: Weights, bias: Tensor | None, out: Tensor | None = None) -> Tensor:
        """x [T, K] → [T, N] of x's dtype, into `out` when given. Parts lie side by side in N."""
        ...

    def dequantize(self, w: Weights, rows: Tensor | None = None) -> Tensor:
        """Weight values [N, K] (or the rows asked for) in float32; for tests, adapters and fallbacks of research."""
        ...


class EmbeddingMethod(Protocol):
    """Token embedding, and the output head made of the same kind of table."""

    def finalize(self, spec: EmbeddingSpec, table: StoredTensor, device: torch.device, dtype: torch.dtype) -> Weights:
        """Bring a stored table [V, D] into the form the other two read."""
        ...

    def lookup(self, ids: Tensor, w: Weights) -> Tensor:
        """ids [T] int64 → rows [T, D] of the activation dtype."""
        ...

    def logits(self, h: Tensor, w: Weights, out: Tensor | None = None) -> Tensor:
        """h [R, D] → scores [R, V] of h's dtype."""
        ...


class QuantMethod(Protocol):
    """Built by the manifest's `implementation(options)`."""

    def __init__(self, options: Any) -> None: ...

    def match(self, checkpoint: Checkpoint) -> Reason | None:
        """None when this method reads the checkpoint, else why it does not."""
        ...

    def linear(self, spec: LinearSpec) -> LinearMethod: ...

    def embedding(self, spec: EmbeddingSpec) -> EmbeddingMethod: ...
