"""Reading and writing token entries of a paged cache tensor.

An entry is block · block_tokens + offset. Layers of different shape may share memory, so that the blocks of a
cache tensor are not always adjacent; then an entry is addressed by its block and offset.

Letters: C blocks, L tokens of a block, G kv heads, K head width, T tokens of the step, B rows, S keys.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Scratch", "write_entries"]


def write_entries(cache_CLGK: Tensor, entries_T: Tensor, values_TGK: Tensor) -> None:
    """Store one vector per kv head for each token."""
    if cache_CLGK.is_contiguous():
        cache_CLGK.flatten(0, 1).index_copy_(0, entries_T, values_TGK)
    else:
        block_tokens = cache_CLGK.shape[1]
        cache_CLGK[entries_T // block_tokens, entries_T % block_tokens] = values_TGK


class Scratch:
    """Memory for what is copied out of the cache, kept from step to step (fresh memory costs page faults)."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, torch.dtype], Tensor] = {}

    def take_entries(self, name: str, cache_CLGK: Tensor, entries_BS: Tensor) -> Tensor:
        """Entries as [B, S, G, K]; good until the next call with the same `name`."""
        if not cache_CLGK.is_contiguous():
            block_tokens = cache_CLGK.shape[1]
            return cache_CLGK[entries_BS // block_tokens, entries_BS % block_tokens]
        shape = (*entries_BS.shape, *cache_CLGK.shape[2:])
        width = shape[2] * shape[3]
        taken = self._buffer(name, cache_CLGK, entries_BS.numel() * width).view(-1, width)
        torch.index_select(cache_CLGK.view(-1, width), 0, entries_BS.flatten(), out=taken)
        return taken.view(shape)

    def _buffer(self, name: str, like: Tensor, size: int) -> Tensor:
        key = (name, like.dtype)
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < size:
            # A quarter more than asked for: rows grow by a token a step, the memory need not.
            buffer = self._buffers[key] = like.new_empty(size * 5 // 4)
        return buffer[:size]
