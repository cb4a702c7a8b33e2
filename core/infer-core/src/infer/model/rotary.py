"""From a RopeSpec to tables of cosines and sines. Letters: P positions, R/2 pairs of turned channels.

Computed in float32 with the operations of the reference implementation (transformers), so that angles agree to the
last bit also at far positions, where a rounding of the frequency shows.
"""

from __future__ import annotations

import math
from functools import cached_property

import torch
from torch import Tensor, nn

from infer_api.errors import ModelError
from infer_api.rope import RopeSpec

__all__ = ["RotaryTable", "attention_factor", "inverse_frequencies"]


class RotaryTable(nn.Module):
    """`infer_api.layers.Rotary` for positions below `num_positions`; tables are made when first looked at."""

    def __init__(self, spec: RopeSpec, num_positions: int, device: torch.device) -> None:
        super().__init__()
        self.spec = spec
        self._num_positions = num_positions
        self._device = device

    @cached_property
    def cos_PR(self) -> Tensor:
        return (self._angles_PR.cos() * attention_factor(self.spec)).to(self._device)

    @cached_property
    def sin_PR(self) -> Tensor:
        return (self._angles_PR.sin() * attention_factor(self.spec)).to(self._device)

    @property
    def _angles_PR(self) -> Tensor:
        positions_P = torch.arange(self._num_positions, dtype=torch.float32)
        return positions_P[:, None] * inverse_frequencies(self.spec, self._num_positions)


def attention_factor(spec: RopeSpec) -> float:
    """What cosines and sines are multiplied with: as stated, or derived from the type."""
    if spec.type not in ("yarn", "longrope"):
        return 1.0
    if spec.attention_factor:
        return spec.attention_factor
    if spec.type == "longrope":
        if spec.factor <= 1.0:
            return 1.0
        return math.sqrt(1.0 + math.log(spec.factor) / math.log(_original(spec)))
    if spec.mscale and spec.mscale_all_dim:
        return _yarn_scale(spec.factor, spec.mscale) / _yarn_scale(spec.factor, spec.mscale_all_dim)
    return _yarn_scale(spec.factor, 1.0)


def inverse_frequencies(spec: RopeSpec, num_positions: int) -> Tensor:
    """Angle per position and pair, float32: [R/2], or [P, R/2] for types that depend on the sequence's length.

    Raises ModelError when the type needs a length that the spec does not state.
    """
    if spec.type == "dynamic":
        return _dynamic(spec, num_positions)
    if spec.type == "longrope":
        return _longrope(spec, num_positions)
    plain = 1.0 / (spec.theta ** _exponents(spec))
    if spec.type == "linear":
        return plain / spec.factor
    if spec.type == "llama3":
        return _by_wavelength(spec, plain)
    if spec.type == "yarn":
        return _yarn(spec)
    assert spec.type == "default", f"rope type {spec.type!r} passed RopeSpec but has no tables"
    return plain


def _exponents(spec: RopeSpec) -> Tensor:
    return torch.arange(0, spec.rotary_size, 2, dtype=torch.float32) / spec.rotary_size


def _original(spec: RopeSpec) -> int:
    length = spec.original_positions or spec.max_positions
    if length <= 0:
        raise ModelError(
            f"rope type {spec.type!r} needs the length the model was trained for: neither "
            "original_max_position_embeddings nor max_position_embeddings is stated"
        )
    return length


def _dynamic(spec: RopeSpec, num_positions: int) -> Tensor:
    """The base grows with the length once it passes the trained one; position p counts as length p + 1."""
    trained, size = spec.max_positions or _original(spec), spec.rotary_size
    lengths_P = torch.arange(1, num_positions + 1, dtype=torch.float64).clamp_(min=trained)
    growth_P = (spec.factor * lengths_P / trained - (spec.factor - 1)) ** (size / (size - 2))
    bases_P = (spec.theta * growth_P).float()
    return 1.0 / (bases_P[:, None] ** _exponents(spec))


def _longrope(spec: RopeSpec, num_positions: int) -> Tensor:
    """Short factors up to the trained length, long ones for every position past it."""
    powers = spec.theta ** _exponents(spec)
    short, long = (1.0 / (torch.tensor(each) * powers) for each in (spec.short_factor, spec.long_factor))
    is_long_P = torch.arange(1, num_positions + 1) > _original(spec)
    return torch.where(is_long_P[:, None], long, short)


def _by_wavelength(spec: RopeSpec, plain: Tensor) -> Tensor:
    """Long wavelengths are stretched by the factor, short ones kept, those between blended."""
    length = _original(spec)
    wavelength = 2 * math.pi / plain
    stretched = torch.where(wavelength > length / spec.low_freq_factor, plain / spec.factor, plain)
    smooth = (length / wavelength - spec.low_freq_factor) / (spec.high_freq_factor - spec.low_freq_factor)
    blended = (1 - smooth) * stretched / spec.factor + smooth * stretched
    is_short = wavelength < length / spec.high_freq_factor
    is_long = wavelength > length / spec.low_freq_factor
    return torch.where(~is_short & ~is_long, blended, stretched)


def _yarn(spec: RopeSpec) -> Tensor:
    """Between two pair indices, given by turns over the trained length, the frequency goes over to its fraction."""
    length, size = _original(spec), spec.rotary_size
    powers = spec.theta ** _exponents(spec)
    kept, stretched = 1.0 / powers, 1.0 / (spec.factor * powers)

    def pair_of(turns: float) -> float:
        return size * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(spec.theta))

    low, high = pair_of(spec.beta_fast), pair_of(spec.beta_slow)
    if spec.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    width = high - low if high != low else 0.001
    keep = 1 - ((torch.arange(size // 2, dtype=torch.float32) - low) / width).clamp(0, 1)
    return stretched * (1 - keep) + kept * keep


def _yarn_scale(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1.0 else 0.1 * mscale * math.log(factor) + 1.0
