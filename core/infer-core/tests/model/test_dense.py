from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch

from infer.model.dense import DenseEmbedding, DenseQuant, Matrix
from infer_api.errors import ModelError
from infer_api.loaders import TensorInfo
from infer_api.quantization import StoredPart
from infer_api.specs import CheckpointConfig, EmbeddingSpec, LinearSpec, Part
from infer_testkit.fakes.checkpoint import MemoryTensor

CPU = torch.device("cpu")
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def seeded(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def stored(part: Part, weight: torch.Tensor) -> StoredPart:
    return StoredPart(part, {"weight": MemoryTensor(weight)})


class Listing:
    """As much of a checkpoint as `match` looks at."""

    suffix = ""

    def __init__(self, *formats: str, **values: Any) -> None:
        self._formats = formats
        self._values = values

    def config(self) -> CheckpointConfig:
        return CheckpointConfig("hf", "config.json", self._values)

    def tensors(self) -> Iterable[TensorInfo]:
        return [TensorInfo(f"t{i}{self.suffix}", (2, 2), each, 16) for i, each in enumerate(self._formats)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 3, 33])
@pytest.mark.parametrize("has_bias", [False, True])
def test_parts_lie_side_by_side_in_the_product(dtype: torch.dtype, rows: int, has_bias: bool) -> None:
    q, k = Part("q", 24), Part("k", 8)
    spec = LinearSpec("attn.qk", 16, (q, k))
    method = DenseQuant(None).linear(spec)
    weights = [seeded(24, 16, seed=1), seeded(8, 16, seed=2)]
    finished = method.finalize([stored(q, weights[0]), stored(k, weights[1])], CPU, dtype)
    x, bias = seeded(rows, 16).to(dtype), seeded(32, seed=3).to(dtype) if has_bias else None
    expected = torch.nn.functional.linear(x, torch.cat(weights).to(dtype), bias)
    tolerance = {"atol": 1e-5, "rtol": 1e-5} if dtype == torch.float32 else {"atol": 0.1, "rtol": 0.02}
    y = method.apply(x, finished, bias)
    assert y.dtype == dtype
    torch.testing.assert_close(y, expected, **tolerance)
    out = torch.empty(rows, 32, dtype=dtype)
    assert method.apply(x, finished, bias, out) is out
    torch.testing.assert_close(out, expected, **tolerance)


def test_a_matrix_multiplies_views_that_are_not_contiguous() -> None:
    weight, wide = seeded(12, 16), seeded(5, 40, seed=1)
    x = wide[:, 10:26]
    torch.testing.assert_close(Matrix(weight).multiply(x, None, None), x @ weight.t(), atol=1e-5, rtol=1e-5)


def test_a_matrix_gives_back_its_values_exactly() -> None:
    weight = seeded(70, 33)
    assert torch.equal(Matrix(weight).values(), weight)
    assert torch.equal(Matrix(weight, keep_plain=True).values(), weight)


def test_dequantize_returns_all_or_some_rows_in_float32() -> None:
    part = Part("", 6)
    spec = LinearSpec("down", 4, (part,))
    method = DenseQuant(None).linear(spec)
    weight = seeded(6, 4).to(torch.bfloat16)
    finished = method.finalize([stored(part, weight)], CPU, torch.bfloat16)
    assert torch.equal(method.dequantize(finished), weight.float())
    assert torch.equal(method.dequantize(finished, torch.tensor([4, 1])), weight[[4, 1]].float())


def test_a_part_of_the_wrong_shape_is_named() -> None:
    part = Part("q", 6)
    method = DenseQuant(None).linear(LinearSpec("attn.qkv", 4, (part,)))
    with pytest.raises(ModelError, match=r"attn\.qkv#q: the weight must be \[6, 4\], found \[4, 6\]"):
        method.finalize([stored(part, seeded(4, 6))], CPU, torch.float32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tied_table_serves_look_ups_and_scores(dtype: torch.dtype) -> None:
    table, h, ids = seeded(40, 8).to(dtype), seeded(3, 8, seed=1).to(dtype), torch.tensor([7, 0, 39])
    method = DenseEmbedding()
    finished = method.finalize(EmbeddingSpec("embed", 40, 8, "head", tied=True), MemoryTensor(table), CPU, dtype)
    assert torch.equal(method.lookup(ids, finished), table[ids])
    torch.testing.assert_close(
        method.logits(h, finished), h @ table.t(), atol=0.1 if dtype != torch.float32 else 1e-5, rtol=0.02
    )
    out = torch.empty(3, 40, dtype=dtype)
    assert method.logits(h, finished, out) is out


def test_a_very_large_tied_table_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infer.model.dense.MAX_COPY_BYTES", 100)
    table, h = seeded(40, 8), seeded(3, 8, seed=1)
    method = DenseEmbedding()
    rows, scores = method.finalize(EmbeddingSpec("embed", 40, 8, tied=True), MemoryTensor(table), CPU, torch.float32)
    assert rows is not None
    assert scores is not None
    assert scores.values().data_ptr() == rows.data_ptr()
    torch.testing.assert_close(method.logits(h, (rows, scores)), h @ table.t(), atol=1e-5, rtol=1e-5)


def test_match_takes_plain_checkpoints_only() -> None:
    quant = DenseQuant(None)
    assert quant.match(Listing("dense.float32", "dense.bfloat16", "dense.int64")) is None  # type: ignore[arg-type]
    for listing, words in (
        (Listing("dense.float32", "packed.q4"), "'t1' is stored as packed.q4"),
        (Listing("dense.float8_e4m3fn"), "'t0' is stored as dense.float8_e4m3fn"),
        (Listing("dense.float32", quantization_config={"quant_method": "x"}), "quantized with 'x'"),
    ):
        reason = quant.match(listing)  # type: ignore[arg-type]
        assert reason is not None
        assert words in reason.text


@pytest.mark.parametrize("kind", ["int8", "uint8", "bool", "int64"])
def test_weights_of_whole_numbers_without_a_scale_are_not_plain(kind: str) -> None:
    listing = Listing("dense.float32", f"dense.{kind}")
    assert DenseQuant(None).match(listing) is None, "a buffer may count"  # type: ignore[arg-type]
    listing.suffix = ".weight"
    reason = DenseQuant(None).match(listing)  # type: ignore[arg-type]
    assert reason is not None
    assert f"'t1.weight' holds {kind}" in reason.text


@pytest.mark.skipif(torch.backends.cpu.get_cpu_capability() != "AVX512", reason="the order of sums is another one")
@pytest.mark.parametrize("width", [576, 1536])
def test_a_row_has_the_same_product_alone_and_among_others(width: int) -> None:
    matrix, x, bias = Matrix(seeded(64, width)), seeded(70, width, seed=1), seeded(64, seed=2)
    together = matrix.multiply(x, bias, None)
    for rows in (1, 2, 3, 16, 33):
        assert torch.equal(matrix.multiply(x[:rows], bias, None), together[:rows])
