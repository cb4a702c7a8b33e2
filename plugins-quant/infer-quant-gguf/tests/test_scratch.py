from __future__ import annotations

import torch

from infer_quant_gguf.scratch import Scratch

CPU = torch.device("cpu")


def test_a_smaller_take_reuses_the_buffer() -> None:
    scratch = Scratch()
    first = scratch.take("a", (4, 8), torch.float32, CPU)
    second = scratch.take("a", (2, 3), torch.float32, CPU)
    assert second.data_ptr() == first.data_ptr()
    assert second.shape == (2, 3)
    assert second.is_contiguous()


def test_names_and_dtypes_have_buffers_of_their_own() -> None:
    scratch = Scratch()
    takes = [("a", torch.float32), ("b", torch.float32), ("a", torch.uint8)]
    found = {scratch.take(name, (8,), dtype, CPU).data_ptr() for name, dtype in takes}
    assert len(found) == 3
    assert scratch.num_bytes == 32 + 32 + 8


def test_a_larger_take_grows_the_buffer() -> None:
    scratch = Scratch()
    scratch.take("a", (1,), torch.uint8, CPU)
    scratch.take("a", (10,), torch.uint8, CPU).fill_(7)
    assert scratch.num_bytes == 10
