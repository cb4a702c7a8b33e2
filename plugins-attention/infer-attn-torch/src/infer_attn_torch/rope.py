"""Rotation of queries and keys by the angles of their positions.

Letters: T tokens, H heads, K head width, R rotated channels, P positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from infer_api.layers import Rotary

__all__ = ["Angles"]


@dataclass(frozen=True)
class Angles:
    """Cosines and signed sines of one step, ready to multiply: turn(x) = x · cos + swap(x) · sin.

    `swap` exchanges the two channels of each pair; the minus of the first channel is in `sin_T1R`.
    """

    cos_T1R: Tensor
    sin_T1R: Tensor
    interleaved: bool

    @classmethod
    def of(cls, rope: Rotary, positions_T: Tensor) -> Angles:
        """Look up the angles of the step's positions."""
        cos, sin = rope.cos_PR[positions_T], rope.sin_PR[positions_T]
        if rope.spec.interleaved:
            cos, sin = cos.repeat_interleave(2, dim=-1), torch.stack((-sin, sin), dim=-1).flatten(-2)
        else:
            cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)
        return cls(cos[:, None], sin[:, None], rope.spec.interleaved)

    def turn(self, x_THK: Tensor) -> Tensor:
        """A new [T, H, K] tensor of x's dtype, its first R channels rotated in float32."""
        size = self.cos_T1R.shape[-1]
        x_THR = x_THK[..., :size].float()
        turned = (self._swap(x_THR) * self.sin_T1R).addcmul_(x_THR, self.cos_T1R).to(x_THK.dtype)
        return turned if size == x_THK.shape[-1] else torch.cat((turned, x_THK[..., size:]), dim=-1)

    def _swap(self, x_THR: Tensor) -> Tensor:
        if self.interleaved:
            return x_THR.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
        low, high = x_THR.chunk(2, dim=-1)
        return torch.cat((high, low), dim=-1)
