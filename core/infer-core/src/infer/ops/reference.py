"""The ops of core: name, signature and meaning, each with an implementation in plain torch for every device.

    rms_norm(x, scale, out=None) → y                  static: eps, scale_before_cast
    add_rms_norm(x, residual, scale) → (y, sum)       static: eps, scale_before_cast; may overwrite x and residual
    silu_mul(x, out=None) → y                         x [..., 2F], gate then up → silu(gate) · up [..., F]
    gelu_tanh_mul(x, out=None) → y                    the same with gelu in its tanh form
    apply_rope(x, cos, sin, out=None) → y             static: interleaved; `out` may be x itself

Norms work in float32 inside. `scale_before_cast` False: cast to x's dtype, then times `scale` of that dtype;
True: times `scale` in float32, then cast. Letters: T tokens, D width, F half of a gated width,
H heads, K head width, R turned channels of a head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from infer_api.ops import OpImpl, OpSite

__all__ = ["REFERENCE_OPS", "apply_rope", "bind_reference", "gelu_tanh_mul", "rms_norm", "silu_mul"]


def rms_norm(
    x_TD: Tensor, scale_D: Tensor, eps: float, *, scale_before_cast: bool = False, out: Tensor | None = None
) -> Tensor:
    """RMSNorm of the last axis of `x_TD` (any leading shape), of its dtype."""
    if x_TD.dtype == torch.float32:
        # Same values, bit for bit, as the written-out form in float32, in one call.
        y_TD = torch.rms_norm(x_TD, scale_D.shape, scale_D, eps)
    else:
        wide_TD = x_TD.float()
        wide_TD = wide_TD * torch.rsqrt(wide_TD.square().mean(-1, keepdim=True) + eps)
        y_TD = (wide_TD * scale_D.float()).to(x_TD.dtype) if scale_before_cast else scale_D * wide_TD.to(x_TD.dtype)
    return y_TD if out is None else out.copy_(y_TD)


def silu_mul(x_T2F: Tensor, out: Tensor | None = None) -> Tensor:
    """silu(gate) · up for gate and up side by side in the last axis."""
    gate_TF, up_TF = x_T2F.chunk(2, -1)
    act_TF = torch.nn.functional.silu(gate_TF)
    return act_TF.mul_(up_TF) if out is None else torch.mul(act_TF, up_TF, out=out)


def gelu_tanh_mul(x_T2F: Tensor, out: Tensor | None = None) -> Tensor:
    """gelu(gate) · up in the tanh approximation, for gate and up side by side in the last axis."""
    gate_TF, up_TF = x_T2F.chunk(2, -1)
    act_TF = torch.nn.functional.gelu(gate_TF, approximate="tanh")
    return act_TF.mul_(up_TF) if out is None else torch.mul(act_TF, up_TF, out=out)


def apply_rope(
    x_THK: Tensor, cos_TR: Tensor, sin_TR: Tensor, *, interleaved: bool = False, out: Tensor | None = None
) -> Tensor:
    """Turn the first channels of every head; channels past the tables' reach stay as they are.

    `cos_TR` and `sin_TR` are [T, R/2] float32, the angles of each token. Pair i is channels (i, i + R/2),
    or (2i, 2i + 1) when `interleaved`.
    """
    half = cos_TR.shape[-1]
    cos_T1R, sin_T1R = cos_TR.unsqueeze(1), sin_TR.unsqueeze(1)
    turned = x_THK[..., : 2 * half]
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = turned[..., :half], turned[..., half:]
    new_first = first * cos_T1R - second * sin_T1R
    new_second = second * cos_T1R + first * sin_T1R
    if out is None:
        out = torch.empty_like(x_THK, memory_format=torch.contiguous_format)
    if out is not x_THK:
        out[..., 2 * half :] = x_THK[..., 2 * half :]
    target = out[..., : 2 * half]
    if interleaved:
        target[..., 0::2], target[..., 1::2] = new_first, new_second
    else:
        target[..., :half], target[..., half:] = new_first, new_second
    return out


def _bind_rms_norm(site: OpSite) -> OpImpl:
    eps, before = float(site.static["eps"]), bool(site.static.get("scale_before_cast", False))

    def norm(x_TD: Tensor, scale_D: Tensor, out: Tensor | None = None) -> Tensor:
        return rms_norm(x_TD, scale_D, eps, scale_before_cast=before, out=out)

    def norm_float32(x_TD: Tensor, scale_D: Tensor, out: Tensor | None = None) -> Tensor:
        y_TD = torch.rms_norm(x_TD, scale_D.shape, scale_D, eps)
        return y_TD if out is None else out.copy_(y_TD)

    return norm_float32 if site.dtype == "float32" else norm


def _bind_add_rms_norm(site: OpSite) -> OpImpl:
    norm = _bind_rms_norm(site)

    def add_norm(x_TD: Tensor, residual_TD: Tensor, scale_D: Tensor) -> tuple[Tensor, Tensor]:
        sum_TD = residual_TD.add_(x_TD)
        return norm(sum_TD, scale_D), sum_TD

    return add_norm


def _bind_rope(site: OpSite) -> OpImpl:
    interleaved = bool(site.static.get("interleaved", False))

    def rope(x_THK: Tensor, cos_TR: Tensor, sin_TR: Tensor, out: Tensor | None = None) -> Tensor:
        return apply_rope(x_THK, cos_TR, sin_TR, interleaved=interleaved, out=out)

    return rope


def _constant(implementation: Callable[..., Any]) -> Callable[[OpSite], OpImpl]:
    return lambda site: implementation


_BINDERS: dict[str, Callable[[OpSite], OpImpl]] = {
    "rms_norm": _bind_rms_norm,
    "add_rms_norm": _bind_add_rms_norm,
    "silu_mul": _constant(silu_mul),
    "gelu_tanh_mul": _constant(gelu_tanh_mul),
    "apply_rope": _bind_rope,
}
REFERENCE_OPS: tuple[str, ...] = tuple(_BINDERS)
"""Names of all ops of core."""


def bind_reference(site: OpSite) -> OpImpl | None:
    """The torch implementation for `site`, or None when core has no op of that name."""
    binder = _BINDERS.get(site.op)
    return None if binder is None else binder(site)
