"""Prefix caching: blocks are found again by a chained hash of everything that shaped their content.

    key of block i = sha256(key of block i - 1, its tokens, the media that lie in it)
    key of block -1 = sha256(plugin digest, adapter and its version, salt)

So equal keys mean equal tokens from the first one on, computed by the same code and weights, for the same tenant.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence

from infer.kv.blocks import NULL_BLOCK, BlockPool
from infer.kv.groups import KVGeometry

__all__ = ["PrefixIndex", "chain", "root_key"]

Media = Sequence[tuple[int, int, str]]


def root_key(digest: str, adapter: str, salt: str) -> bytes:
    """Where the chain of a request begins. Lengths keep ("a", "bc") and ("ab", "c") apart."""
    parts = [part.encode() for part in (digest, adapter, salt)]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).digest()


def chain(parent: bytes, token_ids: Sequence[int], media: Media = (), start: int = 0) -> bytes:
    """Key of the block whose tokens are `token_ids`, the first of them token `start` of the sequence."""
    hasher = hashlib.sha256(parent)
    hasher.update(array("q", token_ids).tobytes())
    for first, count, digest in media:
        if first < start + len(token_ids) and first + count > start:
            hasher.update(f"{first - start}:{digest}".encode())
    return hasher.digest()


class PrefixIndex:
    """What of a prompt is in the pool, for all groups at once.

    A prefix of L blocks can be used when each group has what a row with L blocks computed still reads: everything,
    or with a window only the last blocks.
    """

    def __init__(self, pool: BlockPool, geometry: KVGeometry) -> None:
        self._pool = pool
        self._geometry = geometry
        self._whole = [group for group in geometry.groups if group.spec.retain.window is None]
        self._windowed = [group for group in geometry.groups if group.spec.retain.window is not None]

    def match(self, keys: Sequence[bytes]) -> int:
        """Length in blocks of the longest usable prefix."""
        length = self._limit(keys)
        while length > 0:
            missing = self._last_missing(keys, length)
            if missing is None:
                return length
            # Any longer prefix would read the missing block too, since windows only reach further back from there.
            length = missing
        return 0

    def blocks(self, keys: Sequence[bytes], length: int) -> list[list[int]]:
        """Block tables of the prefix, by group; entries before a window are null."""
        tables = []
        for group in self._geometry.groups:
            first = self._first(group.index, length)
            found = [self._pool.find((keys[at], group.index)) for at in range(first, length)]
            tables.append([NULL_BLOCK] * first + [block for block in found if block is not None])
            assert len(tables[-1]) == length, "a prefix was used that the pool does not hold"
        return tables

    def publish(self, keys: Sequence[bytes], tables: Sequence[Sequence[int]], start: int, end: int) -> None:
        """Blocks start … end - 1 of a sequence are complete."""
        for index, table in enumerate(tables):
            for at in range(start, end):
                self._pool.publish(table[at], (keys[at], index))

    def _limit(self, keys: Sequence[bytes]) -> int:
        for at, key in enumerate(keys):
            if any(self._pool.find((key, group.index)) is None for group in self._whole):
                return at
        return len(keys)

    def _last_missing(self, keys: Sequence[bytes], length: int) -> int | None:
        missing = -1
        for group in self._windowed:
            for at in range(length - 1, max(missing, self._first(group.index, length) - 1), -1):
                if self._pool.find((keys[at], group.index)) is None:
                    missing = at
                    break
        return missing if missing >= 0 else None

    def _first(self, group: int, length: int) -> int:
        return self._geometry.first_needed(self._geometry.groups[group], length * self._geometry.block_tokens)
