"""One tensor of a GGUF file before it becomes a weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from infer_api.errors import NotSliceable
from infer_quant_gguf.blocks import BlockFormat, dequantize_rows

__all__ = ["GgufTensor"]


@dataclass(eq=False)
class GgufTensor:
    """A StoredTensor: `raw` holds the file's bytes, uint8 [*shape[:-1], bytes of a row], until they are needed.

    Packed tensors have one component "blocks", which is `raw`; plain ones have "weight", of their own dtype.
    """

    name: str
    shape: tuple[int, ...]
    block_format: BlockFormat
    raw: Tensor
    format: str = field(init=False)
    """Name of the type: "gguf.q4_1" and the like, "dense.float32" and the like for plain numbers."""

    def __post_init__(self) -> None:
        self.format = self.block_format.name

    def narrow(self, axis: int, start: int, length: int) -> GgufTensor:
        """`length` entries of `axis`. Raises NotSliceable inside a block, which lies along the last axis."""
        axis %= len(self.shape)
        assert min(start, length, self.shape[axis] - start - length) >= 0, "the cut leaves the tensor"
        shape = (*self.shape[:axis], length, *self.shape[axis + 1 :])
        if axis != len(self.shape) - 1:
            return GgufTensor(self.name, shape, self.block_format, self.raw.narrow(axis, start, length))
        fmt = self.block_format
        if start % fmt.block_len or length % fmt.block_len:
            raise NotSliceable(
                f"tensor {self.name!r} ({fmt.label}) cannot be cut to [{start}, {start + length}) of its input",
                multiple=fmt.block_len,
            )
        raw = self.raw.narrow(axis, fmt.row_bytes(start), fmt.row_bytes(length))
        return GgufTensor(self.name, shape, fmt, raw)

    def take_rows(self, index: Tensor) -> GgufTensor:
        """The entries `index` of axis 0, copied. Raises NotSliceable for a packed vector."""
        shape = (index.numel(), *self.shape[1:])
        if len(self.shape) > 1:
            return GgufTensor(self.name, shape, self.block_format, self.raw.index_select(0, index))
        fmt = self.block_format
        if fmt.is_packed:
            raise NotSliceable(f"entries of the packed vector {self.name!r} ({fmt.label})", multiple=fmt.block_len)
        raw = self.raw.view(-1, fmt.block_bytes).index_select(0, index)
        return GgufTensor(self.name, shape, fmt, raw.flatten())

    def components(self) -> Mapping[str, Tensor]:
        """{"blocks": raw bytes} of a packed tensor, {"weight": values} of a plain one; views, not copies."""
        dtype = self.block_format.dtype
        return {"blocks": self.raw} if dtype is None else {"weight": self.raw.view(dtype)}

    def dense(self, dtype: torch.dtype) -> Tensor:
        """The values as a new contiguous tensor of `dtype` in the logical shape."""
        rows = self.raw.reshape(-1, self.raw.shape[-1])
        return dequantize_rows(self.block_format, rows, dtype).view(self.shape)
