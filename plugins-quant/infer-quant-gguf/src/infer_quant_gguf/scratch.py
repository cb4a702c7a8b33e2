"""Buffers that are kept between calls, so that the token loop allocates nothing large."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["Scratch"]


class Scratch:
    """Grows one buffer per name, dtype and device; `take` hands out a view of it.

    Two takes of one name alias each other: a name is one job inside one computation. Not safe for use by two
    threads at once.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}

    def take(self, name: str, shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
        """A contiguous tensor of this shape with undefined contents, valid until `name` is taken again."""
        key, size = (name, dtype, device), math.prod(shape)
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < size:
            buffer = self._buffers[key] = torch.empty(size, dtype=dtype, device=device)
        return buffer[:size].view(*shape)

    @property
    def num_bytes(self) -> int:
        """Bytes held by all buffers."""
        return sum(buffer.numel() * buffer.element_size() for buffer in self._buffers.values())
