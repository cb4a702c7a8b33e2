from __future__ import annotations

import pytest
import torch

from infer.ops.reference import REFERENCE_OPS, apply_rope, bind_reference, gelu_tanh_mul, rms_norm, silu_mul
from infer_api.ops import OpSite

# T tokens, D width, H heads, K head width, R/2 pairs


def seeded(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def norm_as_defined(x: torch.Tensor, eps: float) -> torch.Tensor:
    wide = x.double()
    return wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()


def bound(op: str, dtype: str = "float32", **static: object):
    implementation = bind_reference(OpSite(op, "cpu", dtype, static))
    assert implementation is not None
    return implementation


def test_rms_norm_divides_by_the_root_mean_square() -> None:
    x, scale = seeded(5, 48), seeded(48, seed=1)
    expected = (norm_as_defined(x, 1e-5) * scale).float()
    torch.testing.assert_close(rms_norm(x, scale, 1e-5), expected, atol=1e-6, rtol=1e-5)


def test_rms_norm_in_float32_equals_the_written_out_form_bit_for_bit() -> None:
    x, scale = seeded(7, 576), seeded(576, seed=1)
    assert torch.equal(rms_norm(x, scale, 1e-5), scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)))


def test_scale_is_applied_after_the_cast_unless_asked_otherwise() -> None:
    x, scale = seeded(9, 64, dtype=torch.bfloat16), seeded(64, dtype=torch.bfloat16, seed=1)
    wide = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
    after, before = scale * wide.to(torch.bfloat16), (scale.float() * wide).to(torch.bfloat16)
    assert not torch.equal(after, before)
    assert torch.equal(rms_norm(x, scale, 1e-6), after)
    assert torch.equal(rms_norm(x, scale.float(), 1e-6, scale_before_cast=True), before)


def test_rms_norm_of_heads_normalises_each_head() -> None:
    x, scale = seeded(3, 2, 16), seeded(16, seed=1)
    assert torch.equal(rms_norm(x, scale, 1e-6)[1, 1], rms_norm(x[1, 1], scale, 1e-6))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_add_rms_norm_returns_the_norm_of_the_sum_and_the_sum(dtype: str) -> None:
    kind = getattr(torch, dtype)
    x, residual, scale = (seeded(4, 32, dtype=kind), seeded(4, 32, dtype=kind, seed=1), seeded(32, dtype=kind, seed=2))
    expected = x + residual
    y, total = bound("add_rms_norm", dtype, eps=1e-5)(x, residual, scale)
    assert torch.equal(total, expected)
    assert torch.equal(y, rms_norm(expected, scale, 1e-5))


@pytest.mark.parametrize(
    ("op", "act"),
    [
        (silu_mul, lambda x: x * torch.sigmoid(x)),
        (gelu_tanh_mul, lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    ],
)
def test_gated_activations_take_gate_then_up(op, act) -> None:
    x = seeded(3, 20)
    torch.testing.assert_close(op(x), act(x[:, :10]) * x[:, 10:])


@pytest.mark.parametrize(
    ("op", "static", "width"), [("silu_mul", {}, 8), ("gelu_tanh_mul", {}, 8), ("rms_norm", {"eps": 1e-5}, 16)]
)
def test_out_receives_the_result_and_is_returned(op: str, static: dict, width: int) -> None:
    x, out = seeded(3, 16), torch.full((3, width), torch.nan)
    tensors = (x, seeded(16, seed=1)) if op == "rms_norm" else (x,)
    expected = bound(op, **static)(*tensors)
    assert bound(op, **static)(*tensors, out=out) is out
    assert torch.equal(out, expected)


def turned_by_complex_numbers(x: torch.Tensor, angle: torch.Tensor, interleaved: bool) -> torch.Tensor:
    """The same rotation, written with complex numbers in float64."""
    half = angle.shape[-1]
    part = x[..., : 2 * half].double()
    first, second = (part[..., 0::2], part[..., 1::2]) if interleaved else (part[..., :half], part[..., half:])
    turned = torch.complex(first, second) * torch.polar(torch.ones_like(angle), angle).unsqueeze(1)
    y = x.double().clone()
    if interleaved:
        y[..., 0 : 2 * half : 2], y[..., 1 : 2 * half : 2] = turned.real, turned.imag
    else:
        y[..., :half], y[..., half : 2 * half] = turned.real, turned.imag
    return y.float()


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("pairs", [8, 4, 2])
def test_apply_rope_turns_pairs_and_leaves_the_rest(interleaved: bool, pairs: int) -> None:
    x, angle = seeded(5, 3, 16), seeded(5, pairs, seed=1).double()
    y = apply_rope(x, angle.cos().float(), angle.sin().float(), interleaved=interleaved)
    torch.testing.assert_close(y, turned_by_complex_numbers(x, angle, interleaved), atol=1e-6, rtol=1e-5)
    assert torch.equal(y[..., 2 * pairs :], x[..., 2 * pairs :])


@pytest.mark.parametrize("interleaved", [False, True])
def test_apply_rope_works_in_place(interleaved: bool) -> None:
    x, angle = seeded(5, 3, 16), seeded(5, 6, seed=1)
    expected = apply_rope(x.clone(), angle.cos(), angle.sin(), interleaved=interleaved)
    rope = bound("apply_rope", interleaved=interleaved)
    assert rope(x, angle.cos(), angle.sin(), out=x) is x
    assert torch.equal(x, expected)


def test_apply_rope_accepts_views_and_keeps_the_type() -> None:
    qkv, angle = seeded(4, 48, dtype=torch.bfloat16), seeded(4, 4, seed=1)
    q = qkv[:, :32].view(4, 2, 16)
    y = apply_rope(q, angle.cos(), angle.sin())
    assert y.dtype == torch.bfloat16
    assert y.is_contiguous()
    torch.testing.assert_close(y, apply_rope(q.contiguous(), angle.cos(), angle.sin()))


def test_every_op_binds_and_an_unknown_one_does_not() -> None:
    for op in REFERENCE_OPS:
        assert bind_reference(OpSite(op, "cpu", "float32", {"eps": 1e-5})) is not None
    assert bind_reference(OpSite("no_such_op", "cpu", "float32")) is None
