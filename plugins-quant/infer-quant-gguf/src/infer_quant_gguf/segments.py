"""The finished weights of one layer: segments of output rows, each of one type, side by side.

    x [T, K]  ──►  | segment 0: q, k as Q5_0 | segment 1: v as Q8_0 |  ──►  y [T, N]

Dimensions: T tokens, K input width, N output width, R rows of one segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor

from infer_api.errors import ModelError
from infer_api.loaders import StoredTensor
from infer_quant_gguf.blocks import Columns, find_format
from infer_quant_gguf.scratch import Scratch

__all__ = ["DenseSegment", "GgufWeights", "PackedSegment", "build_weights"]

_CHUNK_VALUES = 1 << 20
"""Values decoded at once: 4 MiB of float32, which the product finds in the cache. Measured best for Q4_1 and Q8_0;
smaller chunks pay more for the start of each operation than they gain."""


@dataclass(frozen=True)
class PackedSegment:
    """Rows of one block type."""

    columns: Columns

    @property
    def num_rows(self) -> int:
        return self.columns.num_rows

    @property
    def num_bytes(self) -> int:
        return self.columns.num_bytes

    def multiply(self, x_TK: Tensor, out_TR: Tensor, scratch: Scratch) -> None:
        """Write x Wᵀ, chunk by chunk."""
        step = max(1, _CHUNK_VALUES // self.columns.width)
        for start in range(0, self.num_rows, step):
            length = min(step, self.num_rows - start)
            w_KR = self.columns.decode_KR(start, length, scratch)
            if x_TK.dtype != w_KR.dtype:
                w_KR = scratch.take("rounded", w_KR.shape, x_TK.dtype, x_TK.device).copy_(w_KR)
            torch.mm(x_TK, w_KR, out=out_TR.narrow(1, start, length))

    def write_rows(self, index_T: Tensor, out_TK: Tensor, scratch: Scratch) -> None:
        """Write the values of the rows `index_T`."""
        out_TK.copy_(self.columns.decode_rows_KT(index_T, scratch).t())


@dataclass(frozen=True)
class DenseSegment:
    """Rows of plain numbers in the activation dtype."""

    weight_RK: Tensor

    @property
    def num_rows(self) -> int:
        return self.weight_RK.shape[0]

    @property
    def num_bytes(self) -> int:
        return self.weight_RK.numel() * self.weight_RK.element_size()

    def multiply(self, x_TK: Tensor, out_TR: Tensor, scratch: Scratch) -> None:
        """Write x Wᵀ."""
        torch.mm(x_TK, self.weight_RK.t(), out=out_TR)

    def write_rows(self, index_T: Tensor, out_TK: Tensor, scratch: Scratch) -> None:
        """Write the values of the rows `index_T`."""
        out_TK.copy_(self.weight_RK.index_select(0, index_T))


@dataclass(frozen=True)
class GgufWeights:
    """One layer's weights [N, K]. `dtype` is the activation type they were made for."""

    segments: tuple[PackedSegment | DenseSegment, ...]
    width: int
    dtype: torch.dtype
    device: torch.device

    @property
    def num_rows(self) -> int:
        return sum(segment.num_rows for segment in self.segments)

    @property
    def num_bytes(self) -> int:
        return sum(segment.num_bytes for segment in self.segments)

    def multiply(self, x_TK: Tensor, out_TN: Tensor | None, scratch: Scratch) -> Tensor:
        """x Wᵀ [T, N] of x's dtype, into `out_TN` when given."""
        if out_TN is None:
            out_TN = x_TK.new_empty((x_TK.shape[0], self.num_rows))
        start = 0
        for segment in self.segments:
            segment.multiply(x_TK, out_TN.narrow(1, start, segment.num_rows), scratch)
            start += segment.num_rows
        return out_TN

    def rows(self, index_T: Tensor, scratch: Scratch) -> Tensor:
        """Values [T, K] of the rows `index_T`, of the activation dtype. Only for weights of one segment."""
        (segment,) = self.segments
        out_TK = torch.empty((index_T.numel(), self.width), dtype=self.dtype, device=self.device)
        segment.write_rows(index_T, out_TK, scratch)
        return out_TK

    def values(self, rows: Tensor | None = None) -> Tensor:
        """All values [N, K] in float32, or those of the `rows` asked for."""
        # A buffer of its own: the shared one would keep the size of the whole weight.
        scratch = Scratch()
        out_NK = torch.empty((self.num_rows, self.width), device=self.device)
        start = 0
        for segment in self.segments:
            index = torch.arange(segment.num_rows, device=self.device)
            segment.write_rows(index, out_NK.narrow(0, start, segment.num_rows), scratch)
            start += segment.num_rows
        return out_NK if rows is None else out_NK.index_select(0, rows)


def build_weights(
    layer: str, tensors: Sequence[StoredTensor], device: torch.device, dtype: torch.dtype, *, keep_packed: bool
) -> GgufWeights:
    """Join neighbours of one format into segments; with `keep_packed` false, all become one dense segment.

    Raises ModelError naming the layer for a format that is none of GGUF's.
    """

    def kind(tensor: StoredTensor) -> str:
        fmt = find_format(tensor.format)
        if fmt is None:
            raise ModelError(f"{layer}: the storage format {tensor.format!r} is none of GGUF's")
        return fmt.name if fmt.is_packed and keep_packed else "dense"

    segments: list[PackedSegment | DenseSegment] = []
    for name, group in groupby(tensors, key=kind):
        fmt = find_format(name)
        if fmt is None:
            segments.append(DenseSegment(torch.cat([tensor.dense(dtype) for tensor in group]).to(device)))
        else:
            raw = torch.cat([tensor.components()["blocks"] for tensor in group])
            segments.append(PackedSegment(Columns.from_rows(fmt, raw).to(device)))
    return GgufWeights(tuple(segments), tensors[0].shape[1], dtype, device)
