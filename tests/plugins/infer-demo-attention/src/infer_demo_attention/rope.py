"""Rotation of queries and keys. Letters: T tokens, H heads, K head width, R rotated channels, P positions."""

from __future__ import annotations

import torch
from torch import Tensor

from infer_api.layers import Rotary

__all__ = ["rotate"]


def rotate(x_THK: Tensor, rope: Rotary, positions_T: Tensor) -> Tensor:
    """Turn the first R channels of each head by the angles of its token's position; a new tensor of x's dtype."""
    size, interleaved = rope.spec.rotary_size, rope.spec.interleaved
    cos_T1 = rope.cos_PR[positions_T][:, None]
    sin_T1 = rope.sin_PR[positions_T][:, None]
    x_THR = x_THK[..., :size].to(cos_T1.dtype)
    if interleaved:
        first, second = x_THR[..., 0::2], x_THR[..., 1::2]
    else:
        first, second = x_THR.chunk(2, dim=-1)
    turned = (first * cos_T1 - second * sin_T1, second * cos_T1 + first * sin_T1)
    turned_THR = torch.stack(turned, dim=-1).flatten(-2) if interleaved else torch.cat(turned, dim=-1)
    return torch.cat((turned_THR.to(x_THK.dtype), x_THK[..., size:]), dim=-1)
