from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from infer_api.errors import ModelError
from infer_api.quantization import StoredPart
from infer_api.specs import EmbeddingSpec, LinearSpec, Part
from infer_quant_gguf import segments
from infer_quant_gguf.blocks import BLOCK_FORMATS
from infer_quant_gguf.loader import GgufCheckpoint
from infer_quant_gguf.method import GgufQuant
from infer_quant_gguf.options import GgufQuantOptions
from infer_quant_gguf.segments import GgufWeights, PackedSegment
from infer_quant_gguf.stored import GgufTensor

CPU = torch.device("cpu")
PACKED = [type_id for type_id, fmt in BLOCK_FORMATS.items() if fmt.is_packed]


def packed(type_id: int, rows: int, width: int) -> tuple[GgufTensor, torch.Tensor]:
    """Random blocks with scales near 0.01, and their values."""
    fmt = BLOCK_FORMATS[type_id]
    random = np.random.default_rng(type_id + rows)
    raw = random.integers(0, 256, (rows, width // fmt.block_len, fmt.block_bytes), dtype=np.uint8)
    start, stop = fmt.half_offset, fmt.half_offset + 2 * fmt.num_halves
    scales = (random.standard_normal((*raw.shape[:2], fmt.num_halves)) * 0.01).astype(np.float16)
    if fmt.is_packed:
        raw[:, :, start:stop] = scales.view(np.uint8)
    else:
        values = random.standard_normal((rows, width)).astype(np.float32)
        raw = gguf.quants.quantize(values, gguf.GGMLQuantizationType(type_id)).view(np.uint8)
    raw = raw.reshape(rows, -1)
    dense = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType(type_id))
    return GgufTensor(f"w{type_id}", (rows, width), fmt, torch.from_numpy(raw)), torch.from_numpy(dense)


def assert_product(found: torch.Tensor, x: torch.Tensor, dense: torch.Tensor) -> None:
    """Equal to x Wᵀ in float64 up to the rounding of a float32 sum."""
    expected = x.double() @ dense.double().t()
    bound = 1e-6 * (1 + x.abs().double() @ dense.abs().double().t())
    assert ((found - expected).abs() <= bound).all()


def linear(type_ids: list[int], *, width: int = 512, rows: int = 24, dtype=torch.float32, keep: str = "packed"):
    """Method, weights and dense values of a linear with one part per type."""
    made = [packed(type_id, rows + index, width) for index, type_id in enumerate(type_ids)]
    parts = tuple(Part(f"p{index}", tensor.shape[0]) for index, (tensor, _) in enumerate(made))
    method = GgufQuant(GgufQuantOptions(keep=keep)).linear(LinearSpec("layer", width, parts))
    stored = [StoredPart(part, {"weight": tensor}) for part, (tensor, _) in zip(parts, made, strict=True)]
    return method, method.finalize(stored, CPU, dtype), torch.cat([dense for _, dense in made])


def kinds(weights: GgufWeights) -> list[str]:
    return [s.columns.format.label if isinstance(s, PackedSegment) else "dense" for s in weights.segments]


@pytest.mark.parametrize("type_id", PACKED)
@pytest.mark.parametrize("tokens", [1, 5])
def test_a_product_equals_the_dense_one(type_id: int, tokens: int) -> None:
    method, weights, dense = linear([type_id])
    x = torch.randn(tokens, 512)
    assert_product(method.apply(x, weights, None), x, dense)


def test_parts_of_different_types_lie_side_by_side_with_bias() -> None:
    method, weights, dense = linear([6, 6, 8, 14, 0])
    assert kinds(weights) == ["Q5_0", "Q8_0", "Q6_K", "dense"]
    x, bias = torch.randn(3, 512), torch.randn(dense.shape[0])
    out = torch.empty(3, dense.shape[0])
    found = method.apply(x, weights, bias, out)
    assert found is out
    assert_product(out - bias, x, dense)


def test_weights_are_multiplied_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_CHUNK_VALUES", 512 * 7)
    method, weights, dense = linear([3, 12])
    x = torch.randn(2, 512)
    assert_product(method.apply(x, weights, None), x, dense)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_activation_types_multiply_weights_rounded_to_them(dtype: torch.dtype) -> None:
    method, weights, dense = linear([3, 1], dtype=dtype)
    x = torch.randn(4, 512, dtype=dtype)
    found = method.apply(x, weights, None)
    assert found.dtype == dtype
    torch.testing.assert_close(found, x @ dense.to(dtype).t(), rtol=2e-2, atol=2e-2)


def test_dense_weights_are_one_segment_with_equal_results() -> None:
    method, weights, dense = linear([6, 8, 14], keep="dense")
    assert kinds(weights) == ["dense"]
    x = torch.randn(3, 512)
    assert_product(method.apply(x, weights, None), x, dense)


def test_packed_weights_take_the_bytes_of_the_file() -> None:
    _, weights, _ = linear([3])
    assert weights.num_bytes == 24 * 512 // 32 * 20


def test_dequantize_gives_all_values_or_the_rows_asked_for() -> None:
    method, weights, dense = linear([6, 0, 14])
    rows = torch.tensor([40, 1, 70])
    assert torch.equal(method.dequantize(weights), dense)
    assert torch.equal(method.dequantize(weights, rows), dense[rows])


def test_steps_after_the_first_add_no_scratch() -> None:
    method, weights, _ = linear([3, 14, 20], dtype=torch.bfloat16)
    x = torch.randn(2, 512, dtype=torch.bfloat16)
    method.apply(x, weights, None)
    held = method._scratch.num_bytes
    method.apply(x, weights, None)
    assert held == method._scratch.num_bytes > 0


def test_a_wrong_shape_names_layer_part_and_tensor() -> None:
    tensor, _ = packed(8, 4, 64)
    part = Part("q", 5)
    method = GgufQuant().linear(LinearSpec("layers.0.attn.qkv", 64, (part,)))
    with pytest.raises(
        ModelError, match=r"layers\.0\.attn\.qkv#q: tensor 'w8' has the shape \[4, 64\], expected \[5, 64\]"
    ):
        method.finalize([StoredPart(part, {"weight": tensor})], CPU, torch.float32)


def test_a_foreign_format_names_the_layer() -> None:
    class Foreign:
        shape, format = (4, 64), "gptq"

    part = Part("", 4)
    method = GgufQuant().linear(LinearSpec("mlp.down", 64, (part,)))
    with pytest.raises(ModelError, match=r"mlp\.down: the storage format 'gptq'"):
        method.finalize([StoredPart(part, {"weight": Foreign()})], CPU, torch.float32)


@pytest.mark.parametrize("type_id", [8, 14, 20, 1])
@pytest.mark.parametrize("keep", ["packed", "dense"])
def test_a_table_serves_lookups_and_the_tied_head(type_id: int, keep: str) -> None:
    tensor, dense = packed(type_id, 37, 256)
    spec = EmbeddingSpec("embed", 37, 256, tied=True)
    method = GgufQuant(GgufQuantOptions(keep=keep)).embedding(spec)
    weights = method.finalize(spec, tensor, CPU, torch.float32)
    ids = torch.tensor([36, 0, 5, 5])
    rows = method.lookup(ids, weights)
    method.lookup(torch.tensor([1, 2, 3, 4]), weights)
    assert torch.equal(rows, dense[ids]), "a later lookup must not change an earlier result"
    h, out = torch.randn(2, 256), torch.empty(2, 37)
    assert method.logits(h, weights, out) is out
    assert_product(out, h, dense)


def test_a_lookup_gives_the_activation_type() -> None:
    tensor, dense = packed(8, 9, 64)
    spec = EmbeddingSpec("embed", 9, 64)
    method = GgufQuant().embedding(spec)
    weights = method.finalize(spec, tensor, CPU, torch.bfloat16)
    assert torch.equal(method.lookup(torch.tensor([8]), weights), dense[[8]].bfloat16())


def test_only_gguf_checkpoints_match(write_gguf) -> None:
    checkpoint = GgufCheckpoint(write_gguf())
    assert GgufQuant().match(checkpoint) is None
    checkpoint.dialect = lambda: "hf"
    assert "'hf'" in GgufQuant().match(checkpoint).text


def test_each_part_needs_one_tensor() -> None:
    part = Part("q", 4)
    spec = LinearSpec("layer", 64, (part,))
    assert [(c.name, c.suffix) for c in GgufQuant().linear(spec).storage(spec, part)] == [("weight", ".weight")]
