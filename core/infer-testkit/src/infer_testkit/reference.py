"""Rotary embedding and attention in double precision, a few lines each: what attention backends are held against.

Letters: T new tokens, S tokens of the sequence (the new ones last), H query heads, G kv heads, K head width,
R rotated channels, P positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from infer_api.layers import Rotary
from infer_api.rope import RopeSpec
from infer_api.specs import AttentionSpec

__all__ = ["RotaryTables", "attend", "rotary_tables", "rotate"]


@dataclass(frozen=True)
class RotaryTables:
    """A `Rotary` made of plain tensors, [P, R / 2] each."""

    spec: RopeSpec
    cos_PR: Tensor
    sin_PR: Tensor


def rotary_tables(spec: RopeSpec, num_positions: int) -> RotaryTables:
    """Tables of the unscaled rope of `spec`, in float32."""
    assert spec.type == "default", "scaled ropes are core's business"
    inverse_R = spec.theta ** -(torch.arange(0, spec.rotary_size, 2, dtype=torch.float64) / spec.rotary_size)
    angle_PR = torch.arange(num_positions, dtype=torch.float64)[:, None] * inverse_R
    return RotaryTables(spec, angle_PR.cos().float(), angle_PR.sin().float())


def rotate(x_THK: Tensor, rope: Rotary | None, positions_T: Tensor) -> Tensor:
    """x in float64, its rotated channels turned by the angles of their positions."""
    x_THK = x_THK.double().clone()
    if rope is None:
        return x_THK
    cos_T1R, sin_T1R = rope.cos_PR[positions_T, None].double(), rope.sin_PR[positions_T, None].double()
    half = rope.spec.rotary_size // 2
    if rope.spec.interleaved:
        first, second = slice(0, 2 * half, 2), slice(1, 2 * half, 2)
    else:
        first, second = slice(0, half), slice(half, 2 * half)
    a, b = x_THK[..., first].clone(), x_THK[..., second].clone()
    x_THK[..., first] = a * cos_T1R - b * sin_T1R
    x_THK[..., second] = b * cos_T1R + a * sin_T1R
    return x_THK


def attend(q_THK: Tensor, k_SGK: Tensor, v_SGK: Tensor, spec: AttentionSpec) -> Tensor:
    """Context vectors [T, H, K] of the last T tokens of a sequence; q and k after rope."""
    (num_new, num_heads, _), num_all = q_THK.shape, len(k_SGK)
    k_SHK = k_SGK.repeat_interleave(num_heads // k_SGK.shape[1], dim=1)
    v_SHK = v_SGK.repeat_interleave(num_heads // v_SGK.shape[1], dim=1)
    score_HTS = torch.einsum("thk,shk->hts", q_THK, k_SHK) * spec.scale
    if spec.softcap is not None:
        score_HTS = spec.softcap * torch.tanh(score_HTS / spec.softcap)
    if spec.causal:
        distance_TS = torch.arange(num_all - num_new, num_all)[:, None] - torch.arange(num_all)
        unseen_TS = distance_TS < 0
        if spec.window is not None:
            unseen_TS |= distance_TS >= spec.window
        score_HTS = score_HTS.masked_fill(unseen_TS, float("-inf"))
    return torch.einsum("hts,shk->thk", score_HTS.softmax(dim=-1), v_SHK)
