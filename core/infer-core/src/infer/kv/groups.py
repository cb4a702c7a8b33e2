"""Layers that share a block table, and how many blocks a sequence needs in them.

All groups draw block ids from one pool, and a block is as large in every group: block b of a group is
entry b of as many cache tensors as the group has layers. So groups get about equally many layers:

    15 windowed + 3 full layers  →  5 groups of 3 windowed layers, 1 group of 3 full ones
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infer_api.specs import KVGroup, KVSpec

__all__ = ["KVGeometry", "form_groups"]


def form_groups(specs: Mapping[str, KVSpec], block_tokens: int) -> tuple[KVGroup, ...]:
    """Group layers of equal spec; `specs` maps layer names to what they keep, in order of the model."""
    buckets: dict[KVSpec, list[str]] = {}
    for layer, spec in specs.items():
        buckets.setdefault(spec, []).append(layer)
    if not buckets:
        return ()
    smallest = min(len(layers) for layers in buckets.values())
    largest = max(len(layers) for layers in buckets.values())
    # A little padding costs less than twice the block tables, which every group adds to each step.
    size = largest if largest * 4 <= smallest * 5 else smallest
    groups: list[KVGroup] = []
    for spec, layers in buckets.items():
        for start in range(0, len(layers), size):
            groups.append(KVGroup(len(groups), spec, tuple(layers[start : start + size]), block_tokens))
    return tuple(groups)


@dataclass(frozen=True)
class KVGeometry:
    """Groups, size of the pool, and the longest chunk of tokens that one step computes for a row."""

    groups: tuple[KVGroup, ...]
    num_blocks: int
    block_tokens: int
    max_chunk: int

    @property
    def num_usable(self) -> int:
        return self.num_blocks - 1

    @property
    def total_tokens(self) -> int:
        """Tokens that fit into the pool when every group needs all of them: the capacity shown to people."""
        return self.num_usable // max(1, len(self.groups)) * self.block_tokens

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that a sequence of `num_tokens` needs at once, at most, over all groups.

        Blocks that slid out of a window stay taken until the steps in flight that name them have retired.
        """
        return sum(self._in_group(group, num_tokens) for group in self.groups)

    def _in_group(self, group: KVGroup, num_tokens: int) -> int:
        every = -(-num_tokens // self.block_tokens)
        window = group.spec.retain.window
        if window is None:
            return every
        # The window before a chunk, the chunk, and one block more as neither starts at a block's edge.
        return min(every, -(-(window - 1 + self.max_chunk) // self.block_tokens) + 1)

    def capacity_tokens(self, upper: int) -> int:
        """Longest single sequence, up to `upper` tokens, that the pool can hold."""
        low, high = 0, upper
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.blocks_for(middle) <= self.num_usable else (low, middle - 1)
        return low

    def first_needed(self, group: KVGroup, num_computed: int) -> int:
        """Index of the first block that a row with `num_computed` tokens still needs in `group`."""
        window = group.spec.retain.window
        return 0 if window is None else max(0, num_computed - window + 1) // self.block_tokens
