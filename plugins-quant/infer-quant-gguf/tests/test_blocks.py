from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from infer_quant_gguf.blocks import BLOCK_FORMATS, BlockFormat, Columns, dequantize_rows, find_format
from infer_quant_gguf.scratch import Scratch

PACKED = [fmt for fmt in BLOCK_FORMATS.values() if fmt.is_packed]
ids = [fmt.name for fmt in PACKED]


def random_rows(fmt: BlockFormat, rows: int, blocks: int, seed: int = 0) -> torch.Tensor:
    """Every bit random, but scales that are NaN or infinite are replaced: those have no defined value."""
    raw = np.random.default_rng(seed).integers(0, 256, (rows, blocks, fmt.block_bytes), dtype=np.uint8)
    start, stop = fmt.half_offset, fmt.half_offset + 2 * fmt.num_halves
    halves = raw[:, :, start:stop].copy().view(np.float16)
    halves[~np.isfinite(halves)] = np.float16(-0.37)
    raw[:, :, start:stop] = halves.view(np.uint8)
    return torch.from_numpy(raw.reshape(rows, -1))


def reference(fmt: BlockFormat, raw: torch.Tensor) -> torch.Tensor:
    with np.errstate(over="ignore", invalid="ignore"):
        return torch.from_numpy(gguf.quants.dequantize(raw.numpy(), gguf.GGMLQuantizationType(fmt.type_id)))


@pytest.mark.parametrize("fmt", PACKED, ids=ids)
@pytest.mark.parametrize(("rows", "blocks"), [(1, 1), (3, 5), (37, 2)])
def test_values_equal_the_reference_bit_for_bit(fmt: BlockFormat, rows: int, blocks: int) -> None:
    raw = random_rows(fmt, rows, blocks, seed=rows)
    assert torch.equal(dequantize_rows(fmt, raw), reference(fmt, raw))


@pytest.mark.parametrize("fmt", PACKED, ids=ids)
def test_every_finite_scale_is_decoded(fmt: BlockFormat) -> None:
    scales = np.arange(65536, dtype=np.uint16).view(np.float16)
    scales = scales[np.isfinite(scales)]
    raw = random_rows(fmt, len(scales), 1).numpy()
    raw[:, fmt.half_offset : fmt.half_offset + 2] = scales.view(np.uint8).reshape(-1, 2)
    found = dequantize_rows(fmt, torch.from_numpy(raw))
    assert torch.equal(found, reference(fmt, torch.from_numpy(raw)))


@pytest.mark.parametrize("fmt", PACKED, ids=ids)
def test_sizes_are_those_of_the_format(fmt: BlockFormat) -> None:
    assert (fmt.block_len, fmt.block_bytes) == gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(fmt.type_id)]


@pytest.mark.parametrize("type_id", [0, 1, 30])
def test_plain_numbers_are_only_viewed(type_id: int) -> None:
    fmt = BLOCK_FORMATS[type_id]
    values = torch.randn(3, 7, dtype=fmt.dtype)
    assert torch.equal(dequantize_rows(fmt, values.view(torch.uint8)), values.float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_dtypes_are_the_float32_value_rounded_once(dtype: torch.dtype) -> None:
    fmt = BLOCK_FORMATS[12]
    raw = random_rows(fmt, 5, 2)
    assert torch.equal(dequantize_rows(fmt, raw, dtype), reference(fmt, raw).to(dtype))


@pytest.mark.parametrize("fmt", PACKED, ids=ids)
def test_a_range_of_rows_decodes_like_the_whole(fmt: BlockFormat) -> None:
    raw = random_rows(fmt, 19, 3)
    columns = Columns.from_rows(fmt, raw)
    part = columns.decode_KR(5, 11, Scratch())
    assert torch.equal(part.t(), reference(fmt, raw)[5:16])


@pytest.mark.parametrize("fmt", PACKED, ids=ids)
def test_named_rows_decode_like_the_whole(fmt: BlockFormat) -> None:
    raw = random_rows(fmt, 19, 2)
    index_T = torch.tensor([18, 0, 7, 7])
    found = Columns.from_rows(fmt, raw).decode_rows_KT(index_T, Scratch())
    assert torch.equal(found.t(), reference(fmt, raw)[index_T])


def test_packed_columns_take_no_more_bytes_than_the_rows() -> None:
    fmt = BLOCK_FORMATS[14]
    raw = random_rows(fmt, 6, 2)
    assert Columns.from_rows(fmt, raw).num_bytes == raw.numel()


def test_scratch_is_reused_between_calls() -> None:
    fmt, scratch = BLOCK_FORMATS[3], Scratch()
    columns = Columns.from_rows(fmt, random_rows(fmt, 8, 4))
    first = columns.decode_KR(0, 8, scratch).data_ptr()
    held = scratch.num_bytes
    assert columns.decode_KR(0, 4, scratch).data_ptr() == first
    assert scratch.num_bytes == held


def test_a_table_of_many_rows_is_reordered_whole() -> None:
    fmt = BLOCK_FORMATS[8]
    raw = random_rows(fmt, 2051, 1)
    assert torch.equal(dequantize_rows(fmt, raw), reference(fmt, raw))


def test_formats_are_found_by_name_and_others_are_not() -> None:
    assert find_format("gguf.q6_k") is BLOCK_FORMATS[14]
    assert find_format("gptq") is None
