from __future__ import annotations

from infer.kv.groups import KVGeometry, form_groups
from infer_api.specs import KVSpec, KVTensor, Retain

TENSORS = (KVTensor("k", 2, 8), KVTensor("v", 2, 8))
FULL = KVSpec(TENSORS)
WINDOW = KVSpec(TENSORS, retain=Retain(window=20))


def test_equal_layers_form_one_group() -> None:
    groups = form_groups({f"layers.{i}": FULL for i in range(5)}, 16)
    assert [group.layers for group in groups] == [tuple(f"layers.{i}" for i in range(5))]


def test_windowed_layers_are_cut_into_groups_as_small_as_the_full_ones() -> None:
    specs = {f"layers.{i}": FULL if i % 6 == 5 else WINDOW for i in range(18)}
    groups = form_groups(specs, 16)
    assert [(len(group.layers), group.spec.retain.window) for group in groups] == [(3, 20)] * 5 + [(3, None)]
    assert sorted(layer for group in groups for layer in group.layers) == sorted(specs)


def test_nearly_equal_counts_share_two_groups_with_padding() -> None:
    specs = {f"layers.{i}": FULL if i < 9 else WINDOW for i in range(17)}
    assert [len(group.layers) for group in form_groups(specs, 16)] == [9, 8]


def test_a_window_bounds_the_blocks_of_a_long_sequence() -> None:
    groups = form_groups({"a": FULL, "b": WINDOW}, 4)
    geometry = KVGeometry(groups, num_blocks=100, block_tokens=4, max_chunk=8)
    assert geometry.blocks_for(4) == 2
    assert geometry.blocks_for(400) == 100 + 8


def test_capacity_is_the_longest_sequence_that_the_pool_holds() -> None:
    geometry = KVGeometry(form_groups({"a": FULL}, 4), num_blocks=11, block_tokens=4, max_chunk=8)
    assert geometry.capacity_tokens(1000) == 40
    assert geometry.capacity_tokens(17) == 17


def test_the_first_block_needed_is_the_one_with_the_windows_oldest_token() -> None:
    geometry = KVGeometry(form_groups({"b": WINDOW}, 4), num_blocks=11, block_tokens=4, max_chunk=8)
    group = geometry.groups[0]
    # The query at position 24 sees 20 tokens, itself included: the oldest is 5, in block 1.
    assert geometry.first_needed(group, 24) == 1
    assert geometry.first_needed(group, 19) == 0
