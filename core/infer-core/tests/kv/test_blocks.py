from __future__ import annotations

import pytest

from infer.kv.blocks import NULL_BLOCK, BlockPool


def test_released_blocks_can_be_taken_again() -> None:
    pool = BlockPool(num_blocks=5)
    first = pool.take(3)
    pool.release(first)
    assert pool.num_free == pool.num_usable == 4
    assert set(pool.take(4)) == {1, 2, 3, 4}


def test_the_null_block_is_never_handed_out_nor_taken_back() -> None:
    pool = BlockPool(num_blocks=3)
    taken = pool.take(2)
    assert NULL_BLOCK not in taken
    pool.release([NULL_BLOCK, *taken, NULL_BLOCK])
    assert pool.num_free == 2


def test_taking_more_than_there_is_or_releasing_twice_is_our_bug() -> None:
    pool = BlockPool(num_blocks=3)
    with pytest.raises(AssertionError):
        pool.take(3)
    taken = pool.take(2)
    pool.release(taken)
    with pytest.raises(AssertionError):
        pool.release(taken)
