"""Ids of KV blocks."""

from __future__ import annotations

__all__ = ["NULL_BLOCK", "BlockPool"]

NULL_BLOCK = 0
"""Never holds live data: entries of a block table that nobody may read point here."""


class BlockPool:
    """Owns the ids of all KV blocks but the null block. `take` and `release` are the only ways in and out.

    ids     0        1 … num_blocks - 1
           null      free or taken, each at one place only
    """

    def __init__(self, num_blocks: int) -> None:
        assert num_blocks >= 2, "a pool needs the null block and one more"
        self.num_blocks = num_blocks
        # Descending, so that the lowest ids are handed out first and a small load touches little memory.
        self._free_ids = list(range(num_blocks - 1, NULL_BLOCK, -1))

    @property
    def num_free(self) -> int:
        return len(self._free_ids)

    @property
    def num_usable(self) -> int:
        """Blocks that sequences can hold altogether."""
        return self.num_blocks - 1

    def take(self, count: int) -> list[int]:
        assert 0 <= count <= len(self._free_ids), "plan asked for blocks that are not there"
        if count == 0:
            return []
        taken = self._free_ids[-count:][::-1]
        del self._free_ids[-count:]
        return taken

    def release(self, block_ids: list[int]) -> None:
        """Give back blocks; null entries among them are skipped."""
        self._free_ids.extend(block_id for block_id in reversed(block_ids) if block_id != NULL_BLOCK)
        assert len(self._free_ids) < self.num_blocks, "a block was released twice"
