"""Ids of KV blocks: who needs them, and which can be found again by their content."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable

__all__ = ["NULL_BLOCK", "BlockPool"]

NULL_BLOCK = 0
"""Never holds live data: entries of a block table that nobody may read point here."""


class BlockPool:
    """Owns the ids of all KV blocks but the null block.

        live     needed by one sequence or more (`take`, `share`)
        cached   needed by nobody, but published under a key: `find` and `share` bring it back
        free     content of no use

    `take` hands out free blocks, then the cached one that was released longest ago, which is forgotten. A published
    block is never written again: its key says what it holds.
    """

    def __init__(self, num_blocks: int) -> None:
        assert num_blocks >= 2, "a pool needs the null block and one more"
        self.num_blocks = num_blocks
        # Descending, so that the lowest ids are handed out first and a small load touches little memory.
        self._free_ids = list(range(num_blocks - 1, NULL_BLOCK, -1))
        self._cached: OrderedDict[int, None] = OrderedDict()
        self._num_users = [0] * num_blocks
        self._key_of: list[Hashable | None] = [None] * num_blocks
        self._by_key: dict[Hashable, int] = {}

    @property
    def num_free(self) -> int:
        """Blocks that `take` could hand out, the cached ones among them."""
        return len(self._free_ids) + len(self._cached)

    @property
    def num_cached(self) -> int:
        return len(self._cached)

    @property
    def num_usable(self) -> int:
        """Blocks that sequences can hold altogether."""
        return self.num_blocks - 1

    def take(self, count: int) -> list[int]:
        assert 0 <= count <= self.num_free, "plan asked for blocks that are not there"
        if count <= 0:
            return []
        from_free = min(count, len(self._free_ids))
        taken = self._free_ids[len(self._free_ids) - from_free :][::-1]
        del self._free_ids[len(self._free_ids) - from_free :]
        for _ in range(count - from_free):
            block_id, _ = self._cached.popitem(last=False)
            self._unpublish(block_id)
            taken.append(block_id)
        for block_id in taken:
            self._num_users[block_id] = 1
        return taken

    def share(self, block_ids: Iterable[int]) -> None:
        """One more sequence needs these live or cached blocks; null entries are skipped."""
        for block_id in block_ids:
            if block_id == NULL_BLOCK:
                continue
            if self._num_users[block_id] == 0:
                del self._cached[block_id]
            self._num_users[block_id] += 1

    def release(self, block_ids: Iterable[int]) -> None:
        """One sequence less needs these blocks; null entries are skipped. The first is reclaimed first."""
        for block_id in block_ids:
            if block_id == NULL_BLOCK:
                continue
            users = self._num_users[block_id] = self._num_users[block_id] - 1
            assert users >= 0, "a block was released twice"
            if users == 0:
                if self._key_of[block_id] is None:
                    self._free_ids.append(block_id)
                else:
                    self._cached[block_id] = None

    def publish(self, block_id: int, key: Hashable) -> None:
        """Let `find` answer `key` with this live block, unless another one with that content is known already."""
        if key not in self._by_key and self._key_of[block_id] is None and block_id != NULL_BLOCK:
            self._by_key[key] = block_id
            self._key_of[block_id] = key

    def find(self, key: Hashable) -> int | None:
        return self._by_key.get(key)

    def num_users(self, block_id: int) -> int:
        return self._num_users[block_id]

    def forget(self, block_ids: Iterable[int]) -> None:
        """Nobody may find these blocks any more; those that are live stay with their sequences."""
        for block_id in block_ids:
            if self._key_of[block_id] is not None:
                self._unpublish(block_id)
                if block_id in self._cached:
                    del self._cached[block_id]
                    self._free_ids.append(block_id)

    def forget_all(self) -> None:
        self.forget(list(self._by_key.values()))

    def check(self, live: dict[int, int]) -> None:
        """Assert that the books agree with `live`: users by block id."""
        assert NULL_BLOCK not in live
        assert {block: users for block, users in enumerate(self._num_users) if users} == live
        free, cached = set(self._free_ids), set(self._cached)
        assert len(free) == len(self._free_ids), "a block is free twice"
        assert not free & cached
        assert not (free | cached) & live.keys()
        assert len(free) + len(cached) + len(live) == self.num_usable, "a block got lost"
        assert all(self._key_of[block] is not None for block in cached)
        assert all(self._key_of[block] is None for block in free)
        assert all(self._key_of[block] == key for key, block in self._by_key.items())

    def _unpublish(self, block_id: int) -> None:
        key = self._key_of[block_id]
        self._key_of[block_id] = None
        del self._by_key[key]
