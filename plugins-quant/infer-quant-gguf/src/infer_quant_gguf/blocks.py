"""The tensor types of GGUF: how many bytes a block has, and how its values are computed.

A quantised row is a sequence of blocks along the input dimension. Decoding runs on *columns*: the same byte of many
blocks lies side by side, so that every step is a plain contiguous operation and scales broadcast along an outer
dimension. That is several times faster in torch than decoding rows, whose blocks are only 16 bytes wide:

    row-wise (file)   [rows, blocks, bytes of a block]
    columns           halves [blocks, H, rows] float16      bytes [blocks, S, rows] uint8
    decoded           [blocks, L, rows] float32 = a weight matrix [in, out]

Dimensions: R rows, B blocks of a row, N blocks side by side, H float16 fields and S other bytes of a block, L values
of a block, K = B * L input width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from infer_quant_gguf.kquants import decode_q2_k, decode_q3_k, decode_q4_k, decode_q5_k, decode_q6_k
from infer_quant_gguf.scratch import Scratch

__all__ = ["BLOCK_FORMATS", "GGML_TYPE_NAMES", "BlockFormat", "Columns", "dequantize_rows", "find_format"]

_REORDERED_ROWS = 1024

Decode = Callable[[Tensor, Tensor, Tensor, Scratch], None]


@dataclass(frozen=True)
class BlockFormat:
    """One tensor type. `name` is what StoredTensor.format says; `label` and `type_id` are the file's own."""

    name: str
    label: str
    type_id: int
    block_len: int
    """Values of one block."""
    block_bytes: int
    dtype: torch.dtype | None = None
    """Set for plain number types, which need no decoding."""
    num_halves: int = 0
    half_offset: int = 0
    """Byte at which the `num_halves` float16 fields of a block begin."""
    decode: Decode | None = None
    """Writes out [.., L, N] float32 from halves [.., H, N] float16 and bytes [.., S, N] uint8."""

    @property
    def is_packed(self) -> bool:
        """Whether values must be computed from blocks (False: plain numbers)."""
        return self.decode is not None

    @property
    def num_other_bytes(self) -> int:
        return self.block_bytes - 2 * self.num_halves

    def row_bytes(self, width: int) -> int:
        """Bytes of a row of `width` values; `width` is a multiple of `block_len`."""
        return width // self.block_len * self.block_bytes


@dataclass(frozen=True)
class Columns:
    """Packed weights of `num_rows` output rows, ordered for fast decoding."""

    format: BlockFormat
    halves_BHR: Tensor
    bytes_BSR: Tensor

    @classmethod
    def from_rows(cls, fmt: BlockFormat, raw: Tensor) -> Columns:
        """Reorder raw rows uint8 [R, bytes of a row]; copies."""
        num_rows, start = raw.shape[0], fmt.half_offset
        stop, num_blocks = start + 2 * fmt.num_halves, raw.shape[1] // fmt.block_bytes
        columns = cls(
            fmt,
            torch.empty((num_blocks, fmt.num_halves, num_rows), dtype=torch.float16),
            torch.empty((num_blocks, fmt.num_other_bytes, num_rows), dtype=torch.uint8),
        )
        # In pieces that stay in the cache: seven times faster than one copy of a large table.
        for first in range(0, num_rows, _REORDERED_ROWS):
            rows = slice(first, first + _REORDERED_ROWS)
            bytes_BbR = raw[rows].unflatten(1, (num_blocks, fmt.block_bytes)).permute(1, 2, 0)
            columns.bytes_BSR[:, :start, rows].copy_(bytes_BbR[:, :start])
            columns.bytes_BSR[:, start:, rows].copy_(bytes_BbR[:, stop:])
            # Every block has an even size, and its float16 fields begin at even bytes.
            halves_BbR = raw[rows].view(torch.float16).unflatten(1, (num_blocks, -1)).permute(1, 2, 0)
            columns.halves_BHR[:, :, rows].copy_(halves_BbR[:, start // 2 : stop // 2])
        return columns

    def to(self, device: torch.device) -> Columns:
        """The same columns on `device`."""
        return Columns(self.format, self.halves_BHR.to(device), self.bytes_BSR.to(device))

    @property
    def num_rows(self) -> int:
        return self.bytes_BSR.shape[2]

    @property
    def width(self) -> int:
        return self.bytes_BSR.shape[0] * self.format.block_len

    @property
    def num_bytes(self) -> int:
        return self.bytes_BSR.numel() + 2 * self.halves_BHR.numel()

    def decode_KR(self, start: int, length: int, scratch: Scratch) -> Tensor:
        """Rows [start, start + length) as a float32 matrix [K, length] in `scratch`, valid until the next call."""
        halves, raw = self.halves_BHR, self.bytes_BSR
        if length != self.num_rows:
            halves, raw = halves.narrow(2, start, length), raw.narrow(2, start, length)
        return self._decode(halves, raw, scratch)

    def decode_rows_KT(self, index_T: Tensor, scratch: Scratch) -> Tensor:
        """The rows named by `index_T` as a float32 matrix [K, T] in `scratch`, valid until the next call."""
        halves = self.halves_BHR.index_select(2, index_T)
        return self._decode(halves, self.bytes_BSR.index_select(2, index_T), scratch)

    def _decode(self, halves: Tensor, raw: Tensor, scratch: Scratch) -> Tensor:
        num_blocks, _, count = raw.shape
        out = scratch.take("values", (num_blocks, self.format.block_len, count), torch.float32, raw.device)
        assert self.format.decode is not None
        self.format.decode(halves, raw, out, scratch)
        return out.view(num_blocks * self.format.block_len, count)


def dequantize_rows(fmt: BlockFormat, raw: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Values [R, K] of raw rows uint8 [R, bytes of a row], computed in float32 and rounded once to `dtype`."""
    if fmt.dtype is not None:
        return raw.contiguous().view(fmt.dtype).to(dtype, copy=True)
    columns, scratch = Columns.from_rows(fmt, raw), Scratch()
    return columns.decode_KR(0, columns.num_rows, scratch).t().contiguous().to(dtype)


def find_format(name: str) -> BlockFormat | None:
    """The format that StoredTensor.format calls `name`, or None when it is not one of these."""
    return next((fmt for fmt in _FORMATS if fmt.name == name), None)


def _nibbles(bytes_16N: Tensor, scratch: Scratch) -> Tensor:
    """uint8 [.., 32, N]: the low halves of 16 bytes, then the high halves."""
    shape = (*bytes_16N.shape[:-2], 32, bytes_16N.shape[-1])
    bits = scratch.take("bits", shape, torch.uint8, bytes_16N.device)
    torch.bitwise_and(bytes_16N, 15, out=bits.narrow(-2, 0, 16))
    torch.bitwise_right_shift(bytes_16N, 4, out=bits.narrow(-2, 16, 16))
    return bits


def _five_bits(bytes_20N: Tensor, scratch: Scratch) -> Tensor:
    """uint8 [.., 32, N]: four bytes that hold the fifth bit of each value, then 16 bytes of nibbles."""
    high_4N, nibbles_16N = bytes_20N.split([4, 16], dim=-2)
    bits = _nibbles(nibbles_16N, scratch)
    shape = (*high_4N.shape[:-2], 4, 8, high_4N.shape[-1])
    flags = scratch.take("flags", shape, torch.uint8, high_4N.device)
    for place in range(8):
        # Moves bit `place` to bit 4, where the nibble ends.
        shift, target = 4 - place, flags.select(-2, place)
        if shift >= 0:
            torch.bitwise_left_shift(high_4N, shift, out=target)
        else:
            torch.bitwise_right_shift(high_4N, -shift, out=target)
    return bits.bitwise_or_(flags.bitwise_and_(16).flatten(-3, -2))


def _decode_q4_0(halves: Tensor, raw: Tensor, out: Tensor, scratch: Scratch) -> None:
    out.copy_(_nibbles(raw, scratch).view(torch.int8).sub_(8)).mul_(halves.float())


def _decode_q4_1(halves: Tensor, raw: Tensor, out: Tensor, scratch: Scratch) -> None:
    _scale_and_shift(halves, out.copy_(_nibbles(raw, scratch)))


def _decode_q5_0(halves: Tensor, raw: Tensor, out: Tensor, scratch: Scratch) -> None:
    out.copy_(_five_bits(raw, scratch).view(torch.int8).sub_(16)).mul_(halves.float())


def _decode_q5_1(halves: Tensor, raw: Tensor, out: Tensor, scratch: Scratch) -> None:
    _scale_and_shift(halves, out.copy_(_five_bits(raw, scratch)))


def _decode_q8_0(halves: Tensor, raw: Tensor, out: Tensor, scratch: Scratch) -> None:
    out.copy_(raw.view(torch.int8)).mul_(halves.float())


def _scale_and_shift(halves_2N: Tensor, out: Tensor) -> None:
    scale_2N = halves_2N.float()
    torch.addcmul(scale_2N.narrow(-2, 1, 1), out, scale_2N.narrow(-2, 0, 1), out=out)


_IQ4_NL_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def _decode_iq4_nl(halves: Tensor, raw: Tensor, out: Tensor, scratch: Scratch) -> None:
    table = torch.tensor(_IQ4_NL_VALUES, dtype=torch.float32, device=raw.device)
    bits = _nibbles(raw, scratch)
    index = scratch.take("index", bits.shape, torch.int32, bits.device).copy_(bits)
    torch.index_select(table, 0, index.view(-1), out=out.view(-1))
    out.mul_(halves.float())


_FORMATS = (
    BlockFormat("dense.float32", "F32", 0, 1, 4, dtype=torch.float32),
    BlockFormat("dense.float16", "F16", 1, 1, 2, dtype=torch.float16),
    BlockFormat("dense.bfloat16", "BF16", 30, 1, 2, dtype=torch.bfloat16),
    BlockFormat("gguf.q4_0", "Q4_0", 2, 32, 18, num_halves=1, decode=_decode_q4_0),
    BlockFormat("gguf.q4_1", "Q4_1", 3, 32, 20, num_halves=2, decode=_decode_q4_1),
    BlockFormat("gguf.q5_0", "Q5_0", 6, 32, 22, num_halves=1, decode=_decode_q5_0),
    BlockFormat("gguf.q5_1", "Q5_1", 7, 32, 24, num_halves=2, decode=_decode_q5_1),
    BlockFormat("gguf.q8_0", "Q8_0", 8, 32, 34, num_halves=1, decode=_decode_q8_0),
    BlockFormat("gguf.q2_k", "Q2_K", 10, 256, 84, num_halves=2, half_offset=80, decode=decode_q2_k),
    BlockFormat("gguf.q3_k", "Q3_K", 11, 256, 110, num_halves=1, half_offset=108, decode=decode_q3_k),
    BlockFormat("gguf.q4_k", "Q4_K", 12, 256, 144, num_halves=2, decode=decode_q4_k),
    BlockFormat("gguf.q5_k", "Q5_K", 13, 256, 176, num_halves=2, decode=decode_q5_k),
    BlockFormat("gguf.q6_k", "Q6_K", 14, 256, 210, num_halves=1, half_offset=208, decode=decode_q6_k),
    BlockFormat("gguf.iq4_nl", "IQ4_NL", 20, 32, 18, num_halves=1, decode=_decode_iq4_nl),
)

BLOCK_FORMATS: dict[int, BlockFormat] = {fmt.type_id: fmt for fmt in _FORMATS}

GGML_TYPE_NAMES: dict[int, str] = {fmt.type_id: fmt.label for fmt in _FORMATS} | {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S",
    23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0",
    39: "MXFP4", 40: "NVFP4",
}  # fmt: skip
"""Names for messages, of types that can be read and of some that cannot."""
