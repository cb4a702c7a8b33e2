"""Prefix keys and the longest prefix that all groups can use."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from infer.kv.blocks import NULL_BLOCK, BlockPool
from infer.kv.groups import KVGeometry, form_groups
from infer.kv.prefix import PrefixIndex, chain, root_key
from infer_api.specs import KVSpec, KVTensor, Retain

TENSORS = (KVTensor("k", 1, 8),)
TOKENS = 4


def make_index(*windows: int | None) -> tuple[PrefixIndex, BlockPool]:
    retained = [KVSpec(TENSORS, retain=Retain(window=window)) if window else KVSpec(TENSORS) for window in windows]
    groups = form_groups({f"layer{at}": spec for at, spec in enumerate(retained)}, TOKENS)
    geometry = KVGeometry(groups, 100, TOKENS, 16)
    assert len(groups) == len(windows)
    pool = BlockPool(100)
    return PrefixIndex(pool, geometry), pool


def keys(count: int) -> list[bytes]:
    chained, parent = [], root_key("digest", "", "")
    for at in range(count):
        parent = chain(parent, range(at * TOKENS, (at + 1) * TOKENS))
        chained.append(parent)
    return chained


def publish(index: PrefixIndex, pool: BlockPool, chained: list[bytes], held: Mapping[int, range]) -> list[list[int]]:
    """Each group has computed all blocks and still holds those of `held`."""
    tables = [pool.take(len(chained)) for _ in held]
    index.publish(chained, tables, 0, len(chained))
    for group, table in enumerate(tables):
        pool.forget(block for at, block in enumerate(table) if at not in held[group])
    return tables


def test_a_key_stands_for_every_token_before_it() -> None:
    root = root_key("digest", "", "")
    same = chain(chain(root, [1, 2]), [3, 4])
    assert same == chain(chain(root, [1, 2]), [3, 4])
    assert same != chain(chain(root, [0, 2]), [3, 4])
    assert same != chain(chain(root, [1, 2]), [3, 5])
    assert chain(root, [1, 2, 3, 4]) != same


@pytest.mark.parametrize("parts", [("other", "", ""), ("digest", "adapter@2", ""), ("digest", "", "salt")])
def test_code_adapter_and_salt_keep_prompts_apart(parts: tuple[str, str, str]) -> None:
    assert root_key(*parts) != root_key("digest", "", "")


def test_the_parts_of_a_root_do_not_run_into_each_other() -> None:
    assert (
        len({root_key("ab", "c", ""), root_key("a", "bc", ""), root_key("", "ab", "c"), root_key("abc", "", "")}) == 4
    )


def test_media_count_where_they_lie_in_a_block_and_only_there() -> None:
    root = root_key("", "", "")
    picture, other = ((6, 4, "sha-a"),), ((6, 4, "sha-b"),)
    assert chain(root, [0] * 4, picture, 0) == chain(root, [0] * 4, other, 0), "before the picture"
    for start in (4, 8):
        assert chain(root, [0] * 4, picture, start) != chain(root, [0] * 4, other, start)
    assert chain(root, [0] * 4, picture, 12) == chain(root, [0] * 4, (), 12), "after it the chain itself differs"
    assert chain(root, [0] * 4, ((5, 4, "sha-a"),), 4) != chain(root, [0] * 4, picture, 4), "shifted within the block"


def test_without_windows_the_longest_chain_of_known_blocks_counts() -> None:
    index, pool = make_index(None)
    chained = keys(6)
    tables = publish(index, pool, chained, {0: range(6)})
    assert index.match(chained) == 6
    pool.forget([tables[0][3]])
    assert index.match(chained) == 3
    assert index.blocks(chained, 3) == [tables[0][:3]]
    assert index.match([chain(b"", [9])]) == 0


def test_a_window_group_needs_the_tail_alone() -> None:
    # 6 tokens: with 5 blocks (20 tokens) computed, a query at 20 reads tokens from 15 on: blocks 3 and 4.
    index, pool = make_index(None, 6)
    chained = keys(5)
    tables = publish(index, pool, chained, {0: range(5), 1: range(3, 5)})
    assert index.match(chained) == 5
    assert index.blocks(chained, 5) == [tables[0], [NULL_BLOCK] * 3 + tables[1][3:]]


def test_a_hit_is_shortened_until_every_window_has_its_tail() -> None:
    index, pool = make_index(None, 6)
    chained = keys(8)
    publish(index, pool, chained, {0: range(8), 1: range(2, 4)})
    assert index.match(chained) == 4
    index, pool = make_index(None, 6)
    publish(index, pool, chained, {0: range(8), 1: range(3, 4)})
    assert index.match(chained) == 0, "one block does not fill the window"


def test_two_windows_must_agree_on_one_length() -> None:
    index, pool = make_index(None, 6, 9)
    chained = keys(8)
    held = {0: range(8), 1: range(8), 2: range(1, 5)}
    publish(index, pool, chained, held)
    assert index.match(chained) == 5
    # Brute force over all lengths gives the same.
    geometry = index._geometry
    usable = [
        length
        for length in range(9)
        if all(
            at in held[group.index]
            for group in geometry.groups
            for at in range(geometry.first_needed(group, length * TOKENS), length)
        )
    ]
    assert index.match(chained) == max(usable)


def test_models_with_windows_alone_find_their_tails_too() -> None:
    index, pool = make_index(6)
    chained = keys(7)
    publish(index, pool, chained, {0: range(5, 7)})
    assert index.match(chained) == 7
