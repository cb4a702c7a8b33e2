from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from infer_api.errors import NotSliceable
from infer_quant_gguf.blocks import BLOCK_FORMATS
from infer_quant_gguf.stored import GgufTensor


def stored(values: np.ndarray, type_id: int) -> tuple[GgufTensor, torch.Tensor]:
    kind = gguf.GGMLQuantizationType(type_id)
    raw = gguf.quants.quantize(values, kind)
    dense = torch.from_numpy(gguf.quants.dequantize(raw, kind))
    return GgufTensor("w", values.shape, BLOCK_FORMATS[type_id], torch.from_numpy(raw.view(np.uint8))), dense


@pytest.mark.parametrize("type_id", [0, 1, 2, 8, 30])
def test_rows_can_be_narrowed_anywhere(matrix, type_id: int) -> None:
    tensor, dense = stored(matrix(7, 64), type_id)
    part = tensor.narrow(0, 3, 2)
    assert part.shape == (2, 64)
    assert torch.equal(part.dense(torch.float32), dense[3:5])


def test_the_input_is_narrowed_in_whole_blocks(matrix) -> None:
    tensor, dense = stored(matrix(5, 128), 3)
    assert torch.equal(tensor.narrow(1, 32, 64).dense(torch.float32), dense[:, 32:96])
    assert torch.equal(tensor.narrow(-1, 96, 32).narrow(0, 1, 3).dense(torch.float32), dense[1:4, 96:])


@pytest.mark.parametrize(("start", "length"), [(16, 32), (0, 48)])
def test_a_cut_inside_a_block_says_where_cuts_are_possible(matrix, start: int, length: int) -> None:
    tensor, _ = stored(matrix(5, 128), 3)
    with pytest.raises(NotSliceable, match="'w' \\(Q4_1\\)") as caught:
        tensor.narrow(1, start, length)
    assert caught.value.multiple == 32


def test_plain_tensors_are_cut_anywhere(matrix) -> None:
    tensor, dense = stored(matrix(5, 10), 1)
    assert torch.equal(tensor.narrow(1, 3, 4).dense(torch.float32), dense[:, 3:7])


def test_rows_are_taken_in_the_order_asked_for(matrix) -> None:
    tensor, dense = stored(matrix(6, 32), 8)
    index = torch.tensor([5, 0, 0, 3])
    taken = tensor.take_rows(index)
    assert taken.shape == (4, 32)
    assert torch.equal(taken.dense(torch.float32), dense[index])


def test_entries_of_a_plain_vector_are_taken_and_narrowed(matrix) -> None:
    tensor, dense = stored(matrix(1, 8)[0], 0)
    assert torch.equal(tensor.take_rows(torch.tensor([7, 1])).dense(torch.float32), dense[[7, 1]])
    assert torch.equal(tensor.narrow(0, 2, 3).dense(torch.float32), dense[2:5])


def test_entries_of_a_packed_vector_cannot_be_taken(matrix) -> None:
    tensor, _ = stored(matrix(1, 64)[0], 8)
    with pytest.raises(NotSliceable):
        tensor.take_rows(torch.tensor([1]))


def test_stacked_matrices_are_cut_along_each_axis(matrix) -> None:
    values = matrix(12, 64).reshape(3, 4, 64)
    tensor, dense = stored(values, 8)
    part = tensor.narrow(0, 1, 2).narrow(1, 2, 2).narrow(2, 32, 32)
    assert torch.equal(part.dense(torch.float32), dense[1:, 2:, 32:])


def test_formats_and_components_tell_packed_from_plain(matrix) -> None:
    packed, _ = stored(matrix(2, 32), 3)
    assert packed.format == "gguf.q4_1"
    assert packed.components().keys() == {"blocks"}
    plain, dense = stored(matrix(2, 3), 1)
    assert plain.format == "dense.float16"
    assert torch.equal(plain.components()["weight"].float(), dense)


def test_dense_never_shares_memory_with_the_file(matrix) -> None:
    tensor, _ = stored(matrix(2, 3), 0)
    tensor.dense(torch.float32).zero_()
    assert tensor.dense(torch.float32).abs().sum() > 0
