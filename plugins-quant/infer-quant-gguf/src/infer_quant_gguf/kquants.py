"""Decoding of the super-block types Q2_K to Q6_K: 256 values with scales for groups of 16 or 32.

Everything here works on columns (see `blocks`): halves_HN holds the float16 scales of N blocks, bytes_SN their
remaining bytes, and the last dimension is the fast one. Leading dimensions may be added to all of them. Products of
a float16 scale, a small integer scale and a small integer are exact in float32, so the order of operations does not
change results.

Dimensions: N blocks side by side, H float16 fields, S other bytes, L = 256 values of a block, G groups of a block.
"""

from __future__ import annotations

import torch
from torch import Tensor

from infer_quant_gguf.scratch import Scratch

__all__ = ["decode_q2_k", "decode_q3_k", "decode_q4_k", "decode_q5_k", "decode_q6_k"]


def decode_q2_k(halves_HN: Tensor, bytes_SN: Tensor, out_LN: Tensor, scratch: Scratch) -> None:
    """Two bits a value, a 4-bit scale and a 4-bit minimum for each 16 values."""
    scales_GN = bytes_SN.narrow(-2, 0, 16)
    _two_bits(bytes_SN.narrow(-2, 16, 64), out_LN, scratch)
    scale = (scales_GN & 15).float() * halves_HN.narrow(-2, 0, 1).float()
    minimum = (scales_GN >> 4).float() * halves_HN.narrow(-2, 1, 1).float()
    groups = out_LN.unflatten(-2, (16, 16))
    groups.mul_(scale.unsqueeze(-2)).sub_(minimum.unsqueeze(-2))


def decode_q3_k(halves_HN: Tensor, bytes_SN: Tensor, out_LN: Tensor, scratch: Scratch) -> None:
    """Two low bits and one high bit a value, a signed 6-bit scale for each 16 values."""
    high_32N, low, packed = bytes_SN.split([32, 64, 12], dim=-2)
    quads = out_LN.unflatten(-2, (2, 4, 32))
    source = low.unflatten(-2, (2, 32))
    bits = scratch.take("bits", source.shape, torch.uint8, source.device)
    flags = scratch.take("flags", high_32N.shape, torch.uint8, source.device)
    for quarter in range(4):
        torch.bitwise_right_shift(source, 2 * quarter, out=bits)
        bits.bitwise_and_(3)
        for half in range(2):
            torch.bitwise_right_shift(high_32N, 4 * half + quarter, out=flags)
            flags.bitwise_and_(1).bitwise_left_shift_(2)
            bits.select(-3, half).bitwise_or_(flags)
        quads.select(-3, quarter).copy_(bits)
    scale_GN = (_six_bit_scales(packed).float() - 32) * halves_HN.float()
    groups = out_LN.unflatten(-2, (16, 16))
    groups.sub_(4).mul_(scale_GN.unsqueeze(-2))


def decode_q4_k(halves_HN: Tensor, bytes_SN: Tensor, out_LN: Tensor, scratch: Scratch) -> None:
    """Four bits a value, a 6-bit scale and a 6-bit minimum for each 32 values."""
    packed, nibbles = bytes_SN.split([12, 128], dim=-2)
    source = nibbles.unflatten(-2, (4, 32))
    bits = scratch.take("bits", source.shape, torch.uint8, source.device)
    pairs = out_LN.unflatten(-2, (4, 2, 32))
    pairs.select(-3, 0).copy_(torch.bitwise_and(source, 15, out=bits))
    pairs.select(-3, 1).copy_(torch.bitwise_right_shift(source, 4, out=bits))
    _scale_and_minimum(halves_HN, packed, out_LN)


def decode_q5_k(halves_HN: Tensor, bytes_SN: Tensor, out_LN: Tensor, scratch: Scratch) -> None:
    """Four low bits and one high bit a value, scales as in Q4_K."""
    packed, high_32N, nibbles = bytes_SN.split([12, 32, 128], dim=-2)
    source = nibbles.unflatten(-2, (4, 32))
    bits = scratch.take("bits", source.shape, torch.uint8, source.device)
    flags = scratch.take("flags", high_32N.shape, torch.uint8, source.device)
    pairs = out_LN.unflatten(-2, (4, 2, 32))
    for which in range(2):
        if which == 0:
            torch.bitwise_and(source, 15, out=bits)
        else:
            torch.bitwise_right_shift(source, 4, out=bits)
        for pair in range(4):
            torch.bitwise_right_shift(high_32N, 2 * pair + which, out=flags)
            bits.select(-3, pair).bitwise_or_(flags.bitwise_and_(1).bitwise_left_shift_(4))
        pairs.select(-3, which).copy_(bits)
    _scale_and_minimum(halves_HN, packed, out_LN)


def decode_q6_k(halves_HN: Tensor, bytes_SN: Tensor, out_LN: Tensor, scratch: Scratch) -> None:
    """Four low bits and two high bits a value, a signed 8-bit scale for each 16 values."""
    low, high, packed = bytes_SN.split([128, 64, 16], dim=-2)
    source = low.unflatten(-2, (2, 2, 32))
    upper = high.unflatten(-2, (2, 32))
    bits = scratch.take("bits", source.shape, torch.uint8, source.device)
    flags = scratch.take("flags", upper.shape, torch.uint8, source.device)
    quads = out_LN.unflatten(-2, (2, 2, 2, 32))
    for which in range(2):
        if which == 0:
            torch.bitwise_and(source, 15, out=bits)
        else:
            torch.bitwise_right_shift(source, 4, out=bits)
        for column in range(2):
            torch.bitwise_right_shift(upper, 4 * which + 2 * column, out=flags)
            bits.select(-3, column).bitwise_or_(flags.bitwise_and_(3).bitwise_left_shift_(4))
        quads.select(-4, which).copy_(bits.view(torch.int8).sub_(32))
    scale_GN = packed.view(torch.int8).float() * halves_HN.float()
    out_LN.unflatten(-2, (16, 16)).mul_(scale_GN.unsqueeze(-2))


def _two_bits(source_SN: Tensor, out_LN: Tensor, scratch: Scratch) -> None:
    source = source_SN.unflatten(-2, (2, 32))
    bits = scratch.take("bits", source.shape, torch.uint8, source.device)
    quads = out_LN.unflatten(-2, (2, 4, 32))
    for quarter in range(4):
        torch.bitwise_right_shift(source, 2 * quarter, out=bits)
        quads.select(-3, quarter).copy_(bits.bitwise_and_(3))


def _six_bit_scales(packed_12N: Tensor) -> Tensor:
    """The 16 scales of Q3_K: eight bytes of nibbles and four bytes with the upper two bits of each."""
    low_8N, high_4N = packed_12N.split([8, 4], dim=-2)
    low = torch.cat([low_8N & 15, low_8N >> 4], dim=-2)
    high = torch.cat([(high_4N >> shift) & 3 for shift in (0, 2, 4, 6)], dim=-2)
    return low | (high << 4)


def _scale_and_minimum(halves_HN: Tensor, packed_12N: Tensor, out_LN: Tensor) -> None:
    """Scale the integers in `out_LN` by the eight 6-bit scales and minimums of Q4_K and Q5_K."""
    first, second, third = packed_12N.split([4, 4, 4], dim=-2)
    scale = torch.cat([first & 63, (third & 15) | ((first >> 2) & 48)], dim=-2)
    minimum = torch.cat([second & 63, (third >> 4) | ((second >> 2) & 48)], dim=-2)
    scale_GN = scale.float() * halves_HN.narrow(-2, 0, 1).float()
    minimum_GN = minimum.float() * halves_HN.narrow(-2, 1, 1).float()
    out_LN.unflatten(-2, (8, 32)).mul_(scale_GN.unsqueeze(-2)).sub_(minimum_GN.unsqueeze(-2))
