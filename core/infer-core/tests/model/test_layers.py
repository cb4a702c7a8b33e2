from __future__ import annotations

import logging

import pytest
import torch

from infer.model.dense import DenseQuant
from infer.model.layers import EmbeddingLayer, LinearLayer, NormLayer
from infer.ops.table import OpTable
from infer_api.quantization import Component
from infer_api.specs import EmbeddingSpec, Epilogue, LinearSpec, Part
from infer_testkit.fakes.checkpoint import MemoryTensor

CPU = torch.device("cpu")
OPS = OpTable([], "cpu", "float32")
QUANT = DenseQuant(None)


def seeded(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def found(**tensors: torch.Tensor) -> dict[str, dict[str, MemoryTensor]]:
    return {name: {"weight": MemoryTensor(tensor)} for name, tensor in tensors.items()}


def linear(epilogue: Epilogue = "none", bias: bool = False) -> LinearLayer:
    spec = LinearSpec("up", 6, (Part("a", 4), Part("b", 4)), bias=bias, epilogue=epilogue)
    layer = LinearLayer(spec, QUANT.linear(spec), OPS)
    weights = {"up#a": seeded(4, 6), "up#b": seeded(4, 6, seed=1)}
    if bias:
        weights |= {"up#a.bias": seeded(4, seed=2), "up#b.bias": seeded(4, seed=3)}
    layer.fill(found(**weights), CPU, torch.float32)
    return layer


def test_a_linear_has_a_slot_for_each_part_and_bias() -> None:
    spec = LinearSpec("up", 6, (Part("a", 4), Part("b", 2)), bias=True)
    slots = LinearLayer(spec, QUANT.linear(spec), OPS).slots()
    assert [(slot.name, slot.shape) for slot in slots] == [
        ("up#a", (4, 6)),
        ("up#a.bias", (4,)),
        ("up#b", (2, 6)),
        ("up#b.bias", (2,)),
    ]
    assert slots[0].components == (Component("weight"),)


def test_a_linear_of_one_part_has_bare_slot_names() -> None:
    spec = LinearSpec("down", 6, (Part("", 4),), bias=True)
    assert [slot.name for slot in LinearLayer(spec, QUANT.linear(spec), OPS).slots()] == ["down", "down.bias"]


def test_split_returns_views_of_the_parts() -> None:
    layer, x = linear(), seeded(3, 6, seed=4)
    y = layer(x)
    a, b = layer.split(y)
    torch.testing.assert_close(a, x @ seeded(4, 6).t(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(b, x @ seeded(4, 6, seed=1).t(), atol=1e-5, rtol=1e-5)
    assert a.data_ptr() == y.data_ptr()


@pytest.mark.parametrize(
    ("epilogue", "act"),
    [
        ("silu_mul", torch.nn.functional.silu),
        ("gelu_tanh_mul", lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
    ],
)
def test_bias_comes_before_the_epilogue(epilogue: Epilogue, act) -> None:
    x = seeded(3, 6, seed=4)
    gate, up = x @ seeded(4, 6).t() + seeded(4, seed=2), x @ seeded(4, 6, seed=1).t() + seeded(4, seed=3)
    torch.testing.assert_close(linear(epilogue, bias=True)(x), act(gate) * up, atol=1e-5, rtol=1e-5)


def test_a_norm_with_unit_offset_scales_by_one_plus_its_weight() -> None:
    x, weight = seeded(3, 8), seeded(8, seed=1)
    plain, offset = (NormLayer("n", 8, 1e-5, style, OPS) for style in ("rms", "rms_unit_offset"))
    plain.fill(found(n=weight + 1), CPU, torch.float32)
    offset.fill(found(n=weight), CPU, torch.float32)
    assert torch.equal(plain(x), offset(x))


def test_norm_add_returns_norm_and_sum_and_passes_a_first_input_through() -> None:
    norm = NormLayer("n", 8, 1e-5, "rms", OPS)
    norm.fill(found(n=seeded(8, seed=1)), CPU, torch.float32)
    x, residual = seeded(3, 8), seeded(3, 8, seed=2)
    y, same = norm.add(x, None)
    assert same is x
    assert torch.equal(y, norm(x))
    total = x + residual
    y, summed = norm.add(x, residual)
    assert torch.equal(summed, total)
    assert torch.equal(y, norm(total))


def embedding(*, tied: bool, head: torch.Tensor | None) -> EmbeddingLayer:
    layer = EmbeddingLayer(EmbeddingSpec("embed", 10, 4, "head", tied), QUANT)
    tensors = {"embed": seeded(10, 4)} | ({} if head is None else {"head": head})
    layer.fill(found(**tensors), CPU, torch.float32)
    return layer


def test_the_head_slot_is_optional_only_when_tied() -> None:
    slots = [EmbeddingLayer(EmbeddingSpec("embed", 10, 4, "head", tied), QUANT).slots() for tied in (True, False)]
    assert [[slot.optional for slot in each] for each in slots] == [[False, True], [False, False]]
    assert len(EmbeddingLayer(EmbeddingSpec("embed", 10, 4), QUANT).slots()) == 1


def test_a_tied_head_scores_with_the_table() -> None:
    layer, h = embedding(tied=True, head=None), seeded(2, 4, seed=5)
    torch.testing.assert_close(layer.logits(h), h @ seeded(10, 4).t(), atol=1e-5, rtol=1e-5)
    assert torch.equal(layer(torch.tensor([3, 9])), seeded(10, 4)[[3, 9]])


def test_a_tied_head_with_an_equal_tensor_stays_tied_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    layer, h = embedding(tied=True, head=seeded(10, 4)), seeded(2, 4, seed=5)
    torch.testing.assert_close(layer.logits(h), h @ seeded(10, 4).t(), atol=1e-5, rtol=1e-5)
    assert not caplog.records


def test_a_tied_head_with_a_different_tensor_uses_it_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        layer = embedding(tied=True, head=seeded(10, 4, seed=9))
    h = seeded(2, 4, seed=5)
    torch.testing.assert_close(layer.logits(h), h @ seeded(10, 4, seed=9).t(), atol=1e-5, rtol=1e-5)
    assert torch.equal(layer(torch.tensor([3])), seeded(10, 4)[[3]])
    assert "different tensor for slot 'head'" in caplog.text


def test_a_head_of_its_own_is_used_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    layer, h = embedding(tied=False, head=seeded(10, 4, seed=9)), seeded(2, 4, seed=5)
    torch.testing.assert_close(layer.logits(h), h @ seeded(10, 4, seed=9).t(), atol=1e-5, rtol=1e-5)
    assert not caplog.records
