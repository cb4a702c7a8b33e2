"""The cache tensors: how many blocks fit, and each layer's view of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from infer_api.errors import ConfigError
from infer_api.platforms import Platform
from infer_api.specs import KVGroup, KVLayout, KVSpec

__all__ = ["KVBudget", "allocate", "bytes_per_block", "num_blocks_for"]


@dataclass(frozen=True)
class KVBudget:
    """Memory for the cache: `asked_bytes` of the user, or `fraction` of `free_bytes`."""

    asked_bytes: int | None
    fraction: float
    free_bytes: int

    @property
    def num_bytes(self) -> int:
        return self.asked_bytes if self.asked_bytes is not None else int(self.free_bytes * self.fraction)


def bytes_per_block(groups: tuple[KVGroup, ...], layouts: Mapping[KVSpec, KVLayout]) -> int:
    """Bytes that one block id stands for: the layers of the largest group."""
    return max((len(group.layers) * layouts[group.spec].bytes_per_block for group in groups), default=0)


def num_blocks_for(budget: KVBudget, block_bytes: int, useful_blocks: int) -> int:
    """Blocks that fit into `budget`, not more than `useful_blocks`. Raises ConfigError when none does."""
    if block_bytes == 0:
        return 2
    if budget.num_bytes > budget.free_bytes:
        raise ConfigError(
            f"the KV cache was given {budget.num_bytes / 2**20:,.0f} MiB, but only "
            f"{budget.free_bytes / 2**20:,.0f} MiB are free; lower --kv-cache-memory"
        )
    fitting = budget.num_bytes // block_bytes
    if fitting < 2:
        raise ConfigError(
            f"one KV block takes {block_bytes / 2**20:.2f} MiB and at least 2 are needed, but the KV cache has "
            f"{budget.num_bytes / 2**20:.2f} MiB; raise --kv-cache-memory"
        )
    return int(min(fitting, useful_blocks))


def allocate(
    platform: Platform, groups: tuple[KVGroup, ...], layouts: Mapping[KVSpec, KVLayout], num_blocks: int
) -> dict[str, dict[str, Tensor]]:
    """Cache tensors by layer and tensor name, each [num_blocks, *shape].

    The j-th layers of all groups share memory: block ids are unique over the groups, so no two of them
    ever own the same block.
    """
    views: dict[str, dict[str, Tensor]] = {}
    arenas: dict[tuple[int, str], Tensor] = {}
    sizes = _arena_bytes(groups, layouts)
    for group in groups:
        layout = layouts[group.spec]
        dtype = getattr(torch, layout.dtype)
        for position, layer in enumerate(group.layers):
            views[layer] = {}
            for name, shape in layout.shapes.items():
                key = (position, name)
                if key not in arenas:
                    arenas[key] = platform.static((num_blocks, sizes[key]), torch.uint8)
                count = torch.Size(shape).numel()
                views[layer][name] = arenas[key].view(dtype)[:, :count].view(num_blocks, *shape)
    return views


def _arena_bytes(groups: tuple[KVGroup, ...], layouts: Mapping[KVSpec, KVLayout]) -> dict[tuple[int, str], int]:
    sizes: dict[tuple[int, str], int] = {}
    for group in groups:
        layout = layouts[group.spec]
        for position in range(len(group.layers)):
            for name, shape in layout.shapes.items():
                size = torch.Size(shape).numel() * getattr(torch, layout.dtype).itemsize
                sizes[position, name] = max(size, sizes.get((position, name), 0))
    return sizes
