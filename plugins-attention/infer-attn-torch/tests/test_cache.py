from __future__ import annotations

import pytest
import torch

from infer_attn_torch.cache import Scratch, write_entries


def cache(gap: int) -> torch.Tensor:
    """6 blocks of 4 tokens, 2 heads of 3 channels, `gap` values between blocks."""
    return torch.zeros(6, 24 + gap)[:, :24].view(6, 4, 2, 3)


@pytest.mark.parametrize("gap", [0, 5])
def test_what_was_written_is_taken_from_the_same_entries(gap: int) -> None:
    blocks, entries_T, values = cache(gap), torch.tensor([5, 23, 9]), torch.randn(3, 2, 3)
    write_entries(blocks, entries_T, values)
    taken = Scratch().take_entries("k", blocks, torch.tensor([[23, 5], [9, 0]]))
    assert torch.equal(taken, torch.stack((values[1], values[0], values[2], torch.zeros(2, 3))).view(2, 2, 2, 3))
    assert blocks.count_nonzero() == values.numel()


def test_scratch_memory_is_reused_and_grows() -> None:
    scratch, blocks = Scratch(), cache(0)
    first = scratch.take_entries("k", blocks, torch.zeros(1, 8, dtype=torch.int64)).data_ptr()
    assert scratch.take_entries("k", blocks, torch.zeros(2, 4, dtype=torch.int64)).data_ptr() == first
    assert scratch.take_entries("v", blocks, torch.zeros(2, 4, dtype=torch.int64)).data_ptr() != first
    assert scratch.take_entries("k", blocks, torch.zeros(5, 20, dtype=torch.int64)).shape == (5, 20, 2, 3)
