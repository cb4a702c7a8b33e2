from __future__ import annotations

import pytest
import torch
from torch import Tensor

from infer.kv.cache import KVBudget, allocate, bytes_per_block, num_blocks_for
from infer.kv.groups import form_groups
from infer_api.errors import ConfigError
from infer_api.specs import KVLayout, KVSpec, KVTensor, Retain

MIB = 2**20
WIDE = KVSpec((KVTensor("k", 2, 8),))
NARROW = KVSpec((KVTensor("k", 1, 8),), retain=Retain(window=9))
LAYOUTS = {
    WIDE: KVLayout({"k": (4, 2, 8)}, "float32", 4 * 2 * 8 * 4),
    NARROW: KVLayout({"k": (4, 1, 8)}, "float32", 4 * 8 * 4),
}


class Memory:
    """The part of a platform that allocation needs; remembers what was asked for."""

    def __init__(self) -> None:
        self.num_bytes = 0

    def static(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        self.num_bytes += torch.Size(shape).numel() * dtype.itemsize
        return torch.zeros(shape, dtype=dtype)


def test_what_was_asked_for_wins_over_a_fraction_of_free_memory() -> None:
    assert KVBudget(None, 0.5, 100).num_bytes == 50
    assert KVBudget(30, 0.5, 100).num_bytes == 30


def test_no_more_blocks_than_fit_and_no_more_than_are_of_use() -> None:
    assert num_blocks_for(KVBudget(None, 0.5, 64 * MIB), MIB, useful_blocks=1000) == 32
    assert num_blocks_for(KVBudget(None, 0.5, 64 * MIB), MIB, useful_blocks=7) == 7


def test_more_than_is_free_is_an_error_with_both_numbers() -> None:
    with pytest.raises(ConfigError, match=r"given 80 MiB, but only 64 MiB are free; lower --kv-cache-memory"):
        num_blocks_for(KVBudget(80 * MIB, 0.5, 64 * MIB), MIB, useful_blocks=1000)


def test_too_little_for_two_blocks_is_an_error_that_says_what_one_takes() -> None:
    with pytest.raises(ConfigError, match=r"one KV block takes 1\.00 MiB .* has 1\.00 MiB; raise --kv-cache-memory"):
        num_blocks_for(KVBudget(MIB, 0.5, 64 * MIB), MIB, useful_blocks=1000)


def test_layers_at_one_place_of_their_groups_share_memory_and_no_block_overlaps_another() -> None:
    groups = form_groups({"a": WIDE, "b": NARROW, "c": WIDE, "d": NARROW}, 4)
    memory = Memory()
    views = allocate(memory, groups, LAYOUTS, num_blocks=5)  # type: ignore[arg-type]
    assert memory.num_bytes == 5 * bytes_per_block(groups, LAYOUTS)
    assert views["a"]["k"].shape == (5, 4, 2, 8)
    assert views["b"]["k"].shape == (5, 4, 1, 8)
    views["a"]["k"][2], views["b"]["k"][3], views["c"]["k"][2] = 1.0, 2.0, 3.0
    assert (views["a"]["k"][2] == 1.0).all()
    assert (views["b"]["k"][3] == 2.0).all()
    assert (views["c"]["k"][2] == 3.0).all()
    assert views["a"]["k"][3].flatten()[:32].tolist() == [2.0] * 32, "the same memory, whose ids only one group may own"
    assert not views["d"]["k"][3].any()
