"""Counter-based random numbers: a function of (seed, position), so batches and neighbours change nothing.

SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014) in int64
arithmetic that wraps, which torch has on every device.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["uniform"]


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


_GAMMA = _signed(0x9E3779B97F4A7C15)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)


def _shift_right(x: Tensor, count: int) -> Tensor:
    # Logical shift: torch's >> on int64 copies the sign bit.
    return (x >> count) & ((1 << (64 - count)) - 1)


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift_right(x, 30)) * _MIX_1
    x = (x ^ _shift_right(x, 27)) * _MIX_2
    return x ^ _shift_right(x, 31)


def uniform(seed_R: Tensor, position_R: Tensor) -> Tensor:
    """float64 [R] in [0, 1), from int64 seeds and token positions.

    Mixed twice, so that neighbouring seeds do not correlate.
    """
    mixed = _mix(_mix(seed_R * _GAMMA + _GAMMA) + position_R * _GAMMA)
    return _shift_right(mixed, 11).to(torch.float64) * 2.0**-53
