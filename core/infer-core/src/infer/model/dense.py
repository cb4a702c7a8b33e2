"""Plain weights: the quantization method that multiplies with the tensors of a checkpoint as they are.

On a CPU, weights are brought once into the blocked layout of oneDNN. For float32 that is as fast as torch's own
product with one row and 2 to 3 times as fast from four rows on (one core of a Zen 5 EPYC, torch 2.13, µs per product):

    rows   [1536, 576] torch / ours    [49152, 576] torch / ours
       1         48 /   49                 7,400 /  3,200
      32        587 /  243                28,800 / 10,400
     128      2,077 /  889                78,200 / 32,100

Letters: T tokens, R rows, K input width, N output width, V vocabulary, D width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from infer_api.errors import ModelError
from infer_api.loaders import Checkpoint, StoredTensor
from infer_api.quantization import Component, StoredPart
from infer_api.specs import EmbeddingSpec, LinearSpec, Part, Reason

__all__ = ["DenseEmbedding", "DenseLinear", "DenseQuant", "Matrix"]

MAX_COPY_BYTES = 1 << 30
"""Largest embedding table of which a second copy, packed, is kept for a tied head."""
WHOLE = ("dense.int", "dense.uint", "dense.bool")
LONG_SUM = 1024
"""A single row over more inputs than this is summed in another order than the same row among others would be. Two
rows are not and take as long, so a lone row is given a twin: a request then gets the same values in any batch."""


class Matrix:
    """Weights [N, K] ready to be multiplied with. `keep_plain`: leave their layout alone (they serve look-ups too)."""

    __slots__ = ("_uses_onednn", "_values")

    def __init__(self, weight_NK: Tensor, *, keep_plain: bool = False) -> None:
        self._uses_onednn = _onednn_serves(weight_NK)
        if self._uses_onednn and not keep_plain:
            weight_NK = torch.ops.mkldnn._reorder_linear_weight(weight_NK, 32)
        self._values = weight_NK

    def multiply(self, x: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
        """x [T, K] → [T, N]."""
        if self._uses_onednn:
            if x.shape[0] == 1 and x.shape[1] > LONG_SUM:
                y = torch.ops.mkldnn._linear_pointwise.default(x.expand(2, -1), self._values, bias, "none", [], "")[:1]
            else:
                y = torch.ops.mkldnn._linear_pointwise.default(x, self._values, bias, "none", [], "")
            return y if out is None else out.copy_(y)
        if out is None:
            return functional.linear(x, self._values, bias)
        if bias is None:
            return torch.mm(x, self._values.t(), out=out)
        return torch.addmm(bias, x, self._values.t(), out=out)

    def values(self) -> Tensor:
        """[N, K] in the plain layout."""
        return self._values.to_dense() if self._values.is_mkldnn else self._values


class DenseLinear:
    """Parts stacked into one matrix."""

    def __init__(self, spec: LinearSpec) -> None:
        self._spec = spec

    def storage(self, spec: LinearSpec, part: Part) -> Sequence[Component]:
        return (Component("weight"),)

    def finalize(self, parts: Sequence[StoredPart], device: torch.device, dtype: torch.dtype) -> Matrix:
        stacked = []
        for stored in parts:
            tensor, wanted = stored.tensors["weight"], (stored.part.d_out, self._spec.d_in)
            if tensor.shape != wanted:
                slot = self._spec.slot(stored.part)
                raise ModelError(f"{slot}: the weight must be {list(wanted)}, found {list(tensor.shape)}")
            stacked.append(tensor.dense(dtype))
        weight_NK = stacked[0] if len(stacked) == 1 else torch.cat(stacked)
        return Matrix(weight_NK.to(device))

    def apply(self, x: Tensor, w: Matrix, bias: Tensor | None, out: Tensor | None = None) -> Tensor:
        return w.multiply(x, bias, out)

    def dequantize(self, w: Matrix, rows: Tensor | None = None) -> Tensor:
        values_NK = w.values()
        return (values_NK if rows is None else values_NK[rows]).float()


class DenseEmbedding:
    """A table for look-ups, a matrix for scores, or both of the same values."""

    def finalize(
        self, spec: EmbeddingSpec, table: StoredTensor, device: torch.device, dtype: torch.dtype
    ) -> tuple[Tensor | None, Matrix | None]:
        table_VD = table.dense(dtype).to(device)
        if spec.tied:
            return table_VD, Matrix(table_VD, keep_plain=table_VD.nbytes > MAX_COPY_BYTES)
        if spec.head == spec.name:  # the head alone
            return None, Matrix(table_VD)
        return table_VD, None

    def lookup(self, ids: Tensor, w: tuple[Tensor, Matrix | None]) -> Tensor:
        return functional.embedding(ids, w[0])

    def logits(self, h: Tensor, w: tuple[Tensor | None, Matrix], out: Tensor | None = None) -> Tensor:
        return w[1].multiply(h, None, out)


class DenseQuant:
    """The quantization method of checkpoints that are not quantized."""

    def __init__(self, options: Any) -> None:
        self._embedding = DenseEmbedding()

    def match(self, checkpoint: Checkpoint) -> Reason | None:
        quantized = checkpoint.config().get("quantization_config")
        if quantized:
            method = quantized.get("quant_method") if isinstance(quantized, Mapping) else quantized
            return Reason(f"the checkpoint is quantized with {method!r}")
        for info in checkpoint.tensors():
            is_number = info.format.startswith("dense.") and "float8" not in info.format
            if info.name.endswith(".weight") and info.format.startswith(WHOLE):
                return Reason(f"tensor {info.name!r} holds {info.format.removeprefix('dense.')}, and nothing scales it")
            if not is_number:
                return Reason(f"tensor {info.name!r} is stored as {info.format}, not as plain numbers")
        return None

    def linear(self, spec: LinearSpec) -> DenseLinear:
        return DenseLinear(spec)

    def embedding(self, spec: EmbeddingSpec) -> DenseEmbedding:
        return self._embedding


def _onednn_serves(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    return weight.dtype == torch.float32 or (
        weight.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    )
