"""Plain tensors as they lie in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

__all__ = ["DenseTensor"]


class DenseTensor:
    """A StoredTensor over a plain tensor, which may be a view of a mapped file."""

    def __init__(self, values: Tensor) -> None:
        self._values = values
        self.shape = tuple(values.shape)
        self.format = f"dense.{str(values.dtype).removeprefix('torch.')}"

    def narrow(self, axis: int, start: int, length: int) -> DenseTensor:
        return DenseTensor(self._values.narrow(axis, start, length))

    def take_rows(self, index: Tensor) -> DenseTensor:
        return DenseTensor(self._values.index_select(0, index))

    def components(self) -> Mapping[str, Tensor]:
        return {"weight": self._values}

    def dense(self, dtype: torch.dtype) -> Tensor:
        return self._values.to(dtype, copy=True, memory_format=torch.contiguous_format)
