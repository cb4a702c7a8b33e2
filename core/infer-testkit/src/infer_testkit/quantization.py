"""Conformance of quantization methods.

    class TestMine(QuantizationConformance):
        method = "mine"

        def stored(self, rows, width, rng):          # only when the method reads packed tensors
            packed, values = pack_at_random(rows, width, rng)
            return {"weight": packed}, values

Letters: T tokens, K input width, N output width, V vocabulary, D width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from infer_api.errors import ModelError
from infer_api.loaders import StoredTensor
from infer_api.quantization import LinearMethod, QuantMethod, StoredPart, Weights
from infer_api.specs import EmbeddingSpec, LinearSpec, Part
from infer_testkit.fakes.checkpoint import MemoryTensor
from infer_testkit.plugin import PluginConformance, make_plugin

__all__ = ["QuantizationConformance"]

CPU = torch.device("cpu")


class QuantizationConformance(PluginConformance):
    """Fill in `method`, and `stored` for packed formats."""

    kind = "quantization"
    method: ClassVar[str]
    """Name of the installed plugin."""
    width: ClassVar[int] = 256
    """Input width that the format can store (a multiple of its block)."""
    sizes: ClassVar[tuple[int, ...]] = (48, 16, 33)
    """Output widths of the parts of the fused linear under test."""
    tolerance: ClassVar[float] = 1e-4
    """Largest accepted distance of products, as a share of the largest."""
    has_embedding: ClassVar[bool] = True

    def plugin_name(self) -> str:
        return self.method

    def make_method(self) -> QuantMethod:
        """The method under test, with its default options."""
        method: QuantMethod = make_plugin("quantization", self.method)
        return method

    def stored(self, rows: int, width: int, rng: torch.Generator) -> tuple[Mapping[str, StoredTensor], Tensor]:
        """Stored tensors of one random part [rows, width] by component name, and the float32 values they stand for."""
        values = torch.randn(rows, width, generator=rng)
        return {"weight": MemoryTensor(values)}, values

    # -- making cases -----------------------------------------------------------------------------------

    @pytest.fixture
    def linear(self, rng: torch.Generator) -> tuple[LinearMethod, Weights, Tensor]:
        """A fused linear with its finished weights, and the values [N, K] it stands for."""
        spec = LinearSpec("layer", self.width, tuple(Part(f"p{i}", size) for i, size in enumerate(self.sizes)))
        method = self.make_method().linear(spec)
        parts, values = [], []
        for part in spec.parts:
            tensors, expected = self.stored(part.d_out, self.width, rng)
            asked = {component.name for component in method.storage(spec, part) if not component.optional}
            assert asked <= set(tensors), f"stored() leaves out {sorted(asked - set(tensors))}"
            parts.append(StoredPart(part, tensors))
            values.append(expected)
        return method, method.finalize(parts, CPU, torch.float32), torch.cat(values)

    def assert_close(self, got: Tensor, expected: Tensor) -> None:
        """Compare, relative to the largest expected value."""
        torch.testing.assert_close(got, expected, rtol=0.0, atol=self.tolerance * float(expected.abs().max()))

    # -- linear -----------------------------------------------------------------------------------------

    def test_weights_stand_for_the_stored_values(self, linear: tuple[LinearMethod, Weights, Tensor]) -> None:
        method, weights, values_NK = linear
        self.assert_close(method.dequantize(weights), values_NK)

    def test_some_rows_can_be_dequantized(
        self, linear: tuple[LinearMethod, Weights, Tensor], rng: torch.Generator
    ) -> None:
        method, weights, values_NK = linear
        rows = torch.randint(len(values_NK), (7,), generator=rng)
        self.assert_close(method.dequantize(weights, rows), values_NK[rows])

    @pytest.mark.parametrize("num_tokens", [1, 2, 3, 8, 33, 130])
    def test_a_product_of_any_number_of_tokens(
        self, linear: tuple[LinearMethod, Weights, Tensor], rng: torch.Generator, num_tokens: int
    ) -> None:
        method, weights, values_NK = linear
        x_TK = torch.randn(num_tokens, self.width, generator=rng)
        self.assert_close(method.apply(x_TK, weights, None), x_TK @ values_NK.T)

    def test_bias_is_added(self, linear: tuple[LinearMethod, Weights, Tensor], rng: torch.Generator) -> None:
        method, weights, values_NK = linear
        x_TK, bias_N = torch.randn(5, self.width, generator=rng), torch.randn(len(values_NK), generator=rng)
        self.assert_close(method.apply(x_TK, weights, bias_N), x_TK @ values_NK.T + bias_N)

    def test_a_given_output_is_filled(self, linear: tuple[LinearMethod, Weights, Tensor], rng: torch.Generator) -> None:
        method, weights, values_NK = linear
        x_TK = torch.randn(5, self.width, generator=rng)
        out_TN = torch.full((5, len(values_NK)), float("nan"))
        assert method.apply(x_TK, weights, None, out_TN).data_ptr() == out_TN.data_ptr()
        self.assert_close(out_TN, x_TK @ values_NK.T)

    def test_inputs_may_be_views(self, linear: tuple[LinearMethod, Weights, Tensor], rng: torch.Generator) -> None:
        method, weights, values_NK = linear
        x_TK = torch.randn(6, self.width * 2, generator=rng)[::2, : self.width]
        self.assert_close(method.apply(x_TK, weights, None), x_TK @ values_NK.T)

    def test_a_row_does_not_depend_on_its_neighbours(
        self, linear: tuple[LinearMethod, Weights, Tensor], rng: torch.Generator
    ) -> None:
        method, weights, _ = linear
        x_TK = torch.randn(9, self.width, generator=rng)
        clean = method.apply(x_TK, weights, None)
        broken_TK = x_TK.clone()
        broken_TK[4] = float("nan")
        result = method.apply(broken_TK, weights, None)
        others = [row for row in range(9) if row != 4]
        self.assert_close(result[others], clean[others])
        assert result[4].isnan().all()

    def test_the_same_product_gives_the_same_bits(
        self, linear: tuple[LinearMethod, Weights, Tensor], rng: torch.Generator
    ) -> None:
        method, weights, _ = linear
        x_TK = torch.randn(7, self.width, generator=rng)
        assert torch.equal(method.apply(x_TK, weights, None), method.apply(x_TK, weights, None))

    def test_a_part_of_the_wrong_shape_is_refused_by_name(self, rng: torch.Generator) -> None:
        spec = LinearSpec("layers.7.odd", self.width, (Part("", 16),))
        method = self.make_method().linear(spec)
        tensors, _ = self.stored(48, self.width, rng)
        with pytest.raises(ModelError, match=r"layers\.7\.odd"):
            method.finalize([StoredPart(spec.parts[0], tensors)], CPU, torch.float32)

    # -- embedding --------------------------------------------------------------------------------------

    def test_a_tied_table_looks_up_and_scores(self, rng: torch.Generator) -> None:
        if not self.has_embedding:
            pytest.skip("the method leaves embeddings as they are")
        spec = EmbeddingSpec("embed", 96, self.width, head="head", tied=True)
        method = self.make_method().embedding(spec)
        tensors, values_VD = self.stored(96, self.width, rng)
        weights = method.finalize(spec, tensors["weight"], CPU, torch.float32)
        ids_T = torch.randint(96, (11,), generator=rng)
        self.assert_close(method.lookup(ids_T, weights), values_VD[ids_T])
        h_RD = torch.randn(5, self.width, generator=rng)
        self.assert_close(method.logits(h_RD, weights), h_RD @ values_VD.T)
