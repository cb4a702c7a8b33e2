"""Loading through a family of two layers, from folders written here and from storage that is not plain.

Tied and untied heads are case B67.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from infer.model.dense import DenseQuant
from infer.model.factory import CoreLayerFactory
from infer.model.load import build_and_load
from infer.ops.table import OpTable
from infer_api.errors import ModelError
from infer_api.loaders import TensorInfo
from infer_api.quantization import Component, StoredPart
from infer_api.specs import CheckpointConfig, EmbeddingSpec, LinearSpec, ModelFacts, Part
from infer_api.weights import Ignore, InterleavedRows, RowRange, WeightMap, WeightRule
from infer_testkit.fakes.checkpoint import MemoryCheckpoint, MemoryTensor

WIDTH, HIDDEN, VOCAB, LAYERS = 8, 12, 20, 2
CPU = torch.device("cpu")
RULES = (
    WeightRule("embed", "embed.weight"),
    WeightRule("head", "lm_head.weight", optional=True),
    WeightRule("layers.{i}.norm", "h.{i}.norm.weight"),
    WeightRule("layers.{i}.up#gate", "h.{i}.gate_up.weight", RowRange(0, HIDDEN)),
    WeightRule("layers.{i}.up#up", "h.{i}.gate_up.weight", RowRange(HIDDEN, HIDDEN)),
    WeightRule("layers.{i}.down", "h.{i}.down.weight"),
    WeightRule("layers.{i}.down.bias", "h.{i}.down.bias"),
)


class TwoLayers(torch.nn.Module):
    def __init__(self, make: CoreLayerFactory, tied: bool) -> None:
        super().__init__()
        self.table = make.embedding("embed", VOCAB, WIDTH, head="head", tied=tied)
        self.layers = torch.nn.ModuleList()
        for i in range(LAYERS):
            layer = torch.nn.Module()
            layer.norm = make.norm(f"layers.{i}.norm", WIDTH, 1e-5)
            parts = [Part("gate", HIDDEN), Part("up", HIDDEN)]
            layer.up = make.linear(f"layers.{i}.up", WIDTH, parts, epilogue="silu_mul")
            layer.down = make.linear(f"layers.{i}.down", HIDDEN, WIDTH, bias=True)
            self.layers.append(layer)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        for layer in self.layers:
            x = x + layer.down(layer.up(layer.norm(x)))
        return self.table.logits(x)


@dataclass
class Family:
    rules: tuple[WeightRule, ...] = RULES
    ignored: tuple[Ignore, ...] = ()

    def facts(self, config: CheckpointConfig) -> ModelFacts:
        tied = bool(config.get("tie_word_embeddings", False))
        return ModelFacts(config.architecture, config.dialect, LAYERS, WIDTH, VOCAB, 32, tied, "float32")

    def build(self, facts: ModelFacts, make: Any) -> TwoLayers:
        return TwoLayers(make, facts.tied)

    def weights(self, facts: ModelFacts) -> WeightMap:
        return WeightMap(self.rules, self.ignored)


def tensors_of_a_model(*, head: bool = False) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = {"embed.weight": (VOCAB, WIDTH)} | ({"lm_head.weight": (VOCAB, WIDTH)} if head else {})
    for i in range(LAYERS):
        shapes |= {
            f"h.{i}.norm.weight": (WIDTH,),
            f"h.{i}.gate_up.weight": (2 * HIDDEN, WIDTH),
            f"h.{i}.down.weight": (WIDTH, HIDDEN),
            f"h.{i}.down.bias": (WIDTH,),
        }
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def reference_logits(tensors: Mapping[str, torch.Tensor], ids: torch.Tensor, head: str) -> torch.Tensor:
    x = tensors["embed.weight"][ids]
    for i in range(LAYERS):
        y = torch.rms_norm(x, (WIDTH,), tensors[f"h.{i}.norm.weight"], 1e-5)
        gate, up = (y @ tensors[f"h.{i}.gate_up.weight"].t()).chunk(2, -1)
        y = torch.nn.functional.silu(gate) * up
        x = x + y @ tensors[f"h.{i}.down.weight"].t() + tensors[f"h.{i}.down.bias"]
    return x @ tensors[head].t()


def checkpoint_of(tensors: Mapping[str, torch.Tensor], **config: Any) -> MemoryCheckpoint:
    return MemoryCheckpoint({"architectures": ["TwoLayers"], **config}, tensors)


def make_factory(quant: Any = None, dtype: torch.dtype = torch.float32) -> CoreLayerFactory:
    name = str(dtype).removeprefix("torch.")
    return CoreLayerFactory(quant or DenseQuant(None), OpTable([], "cpu", name), CPU, dtype, max_seq_tokens=32)


def load(checkpoint: Any, family: Family | None = None, quant: Any = None, **options: Any) -> TwoLayers:
    family = family or Family()
    model = build_and_load(family, family.facts(checkpoint.config()), checkpoint, make_factory(quant), **options)  # type: ignore[arg-type]
    assert isinstance(model, TwoLayers)
    return model


IDS = torch.tensor([3, 0, 19, 7])


def test_a_loaded_model_computes_what_its_tensors_say() -> None:
    tensors = tensors_of_a_model(head=True)
    model = load(checkpoint_of(tensors))
    torch.testing.assert_close(model(IDS), reference_logits(tensors, IDS, "lm_head.weight"), atol=1e-5, rtol=1e-5)
    assert not model.training


def test_stored_types_are_converted_to_the_activation_type() -> None:
    tensors = {name: tensor.bfloat16() for name, tensor in tensors_of_a_model(head=True).items()}
    expected = reference_logits({name: tensor.float() for name, tensor in tensors.items()}, IDS, "lm_head.weight")
    torch.testing.assert_close(load(checkpoint_of(tensors))(IDS), expected, atol=1e-5, rtol=1e-5)


# --- output head: tied or not, there or not ------------------------------------------------------------------------


def test_tied_and_absent_scores_with_the_embedding() -> None:
    tensors = tensors_of_a_model()
    model = load(checkpoint_of(tensors, tie_word_embeddings=True))
    torch.testing.assert_close(model(IDS), reference_logits(tensors, IDS, "embed.weight"), atol=1e-5, rtol=1e-5)


def test_tied_and_present_and_equal_loads_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    tensors = tensors_of_a_model()
    tensors["lm_head.weight"] = tensors["embed.weight"].clone()
    model = load(checkpoint_of(tensors, tie_word_embeddings=True))
    torch.testing.assert_close(model(IDS), reference_logits(tensors, IDS, "embed.weight"), atol=1e-5, rtol=1e-5)
    assert not caplog.records


def test_tied_and_present_and_different_uses_the_head_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    tensors = tensors_of_a_model(head=True)
    with caplog.at_level(logging.WARNING):
        model = load(checkpoint_of(tensors, tie_word_embeddings=True))
    torch.testing.assert_close(model(IDS), reference_logits(tensors, IDS, "lm_head.weight"), atol=1e-5, rtol=1e-5)
    assert "ties the output head" in caplog.text


def test_untied_and_absent_is_an_error_naming_slot_and_tensor() -> None:
    with pytest.raises(
        ModelError, match=r"1 weights .* not in the checkpoint: head \(tensor lm_head\.weight is missing\)"
    ):
        load(checkpoint_of(tensors_of_a_model(), tie_word_embeddings=False))


# --- everything is filled, everything is used ----------------------------------------------------------------------


def test_missing_tensors_are_counted_and_the_first_are_named() -> None:
    tensors = {name: tensor for name, tensor in tensors_of_a_model(head=True).items() if not name.startswith("h.")}
    with pytest.raises(
        ModelError, match=r"10 weights .*layers\.0\.norm \(tensor h\.0\.norm\.weight is missing\).*and 5 more"
    ):
        load(checkpoint_of(tensors))


def test_a_slot_without_a_rule_is_an_error() -> None:
    family = Family(rules=RULES[:-1])
    with pytest.raises(ModelError, match=r"layers\.0\.down\.bias \(no rule of the model plugin fills it\)"):
        load(checkpoint_of(tensors_of_a_model(head=True)), family)


def test_a_tensor_that_nobody_takes_is_an_error_unless_ignored() -> None:
    tensors = tensors_of_a_model(head=True)
    tensors |= {
        "h.0.rotary.inv_freq": torch.ones(2),
        "h.1.rotary.inv_freq": torch.ones(2),
        "h.0.up.bias": torch.ones(3),
    }
    checkpoint = checkpoint_of(tensors)
    with pytest.raises(ModelError, match=r"3 tensors of the checkpoint belong to no part .*h\.0\.up\.bias"):
        load(checkpoint)
    with pytest.raises(ModelError, match=r"1 tensors .*: h\.0\.up\.bias"):
        load(checkpoint, Family(ignored=(Ignore("h.*.rotary.inv_freq", "recomputed"),)))


def test_rules_for_one_slot_are_alternatives() -> None:
    tensors = tensors_of_a_model(head=True)
    renamed = {name.replace("embed", "wte"): tensor for name, tensor in tensors.items()}
    family = Family(rules=(*RULES, WeightRule("embed", "wte.weight")))
    model = load(checkpoint_of(renamed), family)
    torch.testing.assert_close(model(IDS), reference_logits(tensors, IDS, "lm_head.weight"), atol=1e-5, rtol=1e-5)


def test_a_wrong_shape_names_slot_tensor_and_both_shapes() -> None:
    tensors = tensors_of_a_model(head=True)
    tensors["h.1.down.weight"] = torch.zeros(WIDTH, HIDDEN + 1)
    message = r"weight 'layers\.1\.down' must be \[8, 12\], but tensor 'h\.1\.down\.weight' gives \[8, 13\]"
    with pytest.raises(ModelError, match=message):
        load(checkpoint_of(tensors))


def test_a_fused_tensor_that_is_too_short_is_named() -> None:
    tensors = tensors_of_a_model(head=True)
    tensors["h.0.gate_up.weight"] = torch.zeros(2 * HIDDEN - 1, WIDTH)
    with pytest.raises(ModelError, match=r"'h\.0\.gate_up\.weight' has 23 rows, but rows 12 to 24 are needed"):
        load(checkpoint_of(tensors))


def test_interleaved_rows_are_put_back_head_by_head() -> None:
    tensors = tensors_of_a_model(head=True)
    stored = dict(tensors)
    for i in range(LAYERS):
        # Two heads of four channels: channel c of a head is stored at row 2c, or at 2(c - 2) + 1 in its second half.
        order = torch.tensor([0, 2, 1, 3, 4, 6, 5, 7])
        stored[f"h.{i}.down.weight"] = tensors[f"h.{i}.down.weight"][order]
        stored[f"h.{i}.down.bias"] = tensors[f"h.{i}.down.bias"][order]
    rules = [WeightRule(rule.slot, rule.source, InterleavedRows(2)) if "down" in rule.slot else rule for rule in RULES]
    model = load(checkpoint_of(stored), Family(rules=tuple(rules)))
    torch.testing.assert_close(model(IDS), reference_logits(tensors, IDS, "lm_head.weight"), atol=1e-5, rtol=1e-5)


def test_rows_that_heads_cannot_share_are_an_error() -> None:
    rules = [WeightRule(rule.slot, rule.source, InterleavedRows(3)) if "down" in rule.slot else rule for rule in RULES]
    with pytest.raises(ModelError, match="has 8 rows, which 3 heads of pairs cannot share"):
        load(checkpoint_of(tensors_of_a_model(head=True)), Family(rules=tuple(rules)))


# --- memory and progress -------------------------------------------------------------------------------------------


def test_a_model_larger_than_memory_is_refused_before_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = {name: tensor.bfloat16() for name, tensor in tensors_of_a_model(head=True).items()}
    needed = 4 * sum(tensor.numel() for tensor in tensors.values())
    checkpoint = checkpoint_of(tensors)
    load(checkpoint, available_bytes=needed)
    monkeypatch.setattr(checkpoint, "read", lambda name: pytest.fail("data was read"))
    with pytest.raises(ModelError, match=r"need \S+ KiB of memory in float32, but only \S+ KiB are available"):
        load(checkpoint, available_bytes=needed - 1)


def test_progress_counts_every_tensor_once_up_to_all_bytes() -> None:
    tensors = tensors_of_a_model(head=True)
    reports: list[tuple[str, int, int]] = []
    load(checkpoint_of(tensors), progress=lambda *report: reports.append(report))
    assert sorted(name for name, _, _ in reports) == sorted(tensors)
    done = [report[1] for report in reports]
    assert done == sorted(done)
    assert reports[-1][1:] == (sum(tensor.nbytes for tensor in tensors.values()),) * 2


# --- storage that is not plain -------------------------------------------------------------------------------------


class Packed:
    """Whole numbers from -127 to 127, cut by rows only; the steps between them are another tensor."""

    def __init__(self, codes: torch.Tensor) -> None:
        self._codes = codes
        self.shape = tuple(codes.shape)
        self.format = "packed.int8"

    def narrow(self, axis: int, start: int, length: int) -> Packed:
        assert axis == 0
        return Packed(self._codes[start : start + length])

    def take_rows(self, index: torch.Tensor) -> Packed:
        return Packed(self._codes[index])

    def components(self) -> Mapping[str, torch.Tensor]:
        return {"codes": self._codes}

    def dense(self, dtype: torch.dtype) -> torch.Tensor:
        return self._codes.to(dtype)


class PackedCheckpoint:
    """Matrices of a model as int8 with one step per row, in memory."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], *, without: str = "") -> None:
        self.stored: dict[str, Any] = {}
        for name, tensor in tensors.items():
            if name.startswith("h.") and tensor.ndim == 2:
                step = tensor.abs().amax(1) / 127
                self.stored[name] = Packed((tensor / step[:, None]).round().to(torch.int8))
                self.stored[name.removesuffix(".weight") + ".step"] = MemoryTensor(step)
            else:
                self.stored[name] = MemoryTensor(tensor)
        self.stored.pop(without, None)

    def config(self) -> CheckpointConfig:
        return CheckpointConfig("hf", "packed", {"architectures": ["TwoLayers"]})

    def tensors(self) -> list[TensorInfo]:
        return [TensorInfo(name, tensor.shape, tensor.format, 1) for name, tensor in self.stored.items()]

    def read(self, name: str) -> Any:
        return self.stored[name]

    def values(self) -> dict[str, torch.Tensor]:
        """What the stored numbers mean."""
        found = {}
        for name, tensor in self.stored.items():
            step = self.stored.get(name.removesuffix(".weight") + ".step")
            values = tensor.dense(torch.float32)
            found[name] = values * step.dense(torch.float32)[:, None] if step is not None else values
        return found


class PackedLinear:
    def __init__(self, spec: LinearSpec) -> None:
        self.spec = spec

    def storage(self, spec: LinearSpec, part: Part) -> Sequence[Component]:
        return (Component("codes"), Component("step", ".step"), Component("zero", ".zero", optional=True))

    def finalize(self, parts: Sequence[StoredPart], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
        assert all(set(part.tensors) == {"codes", "step"} for part in parts)
        return torch.cat(
            [part.tensors["codes"].dense(dtype) * part.tensors["step"].dense(dtype)[:, None] for part in parts]
        )

    def apply(
        self, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        return torch.nn.functional.linear(x, w, bias)


class PackedQuant:
    def linear(self, spec: LinearSpec) -> PackedLinear:
        return PackedLinear(spec)

    def embedding(self, spec: EmbeddingSpec) -> Any:
        return DenseQuant(None).embedding(spec)


def test_components_of_a_packed_weight_are_found_and_cut_alike() -> None:
    checkpoint = PackedCheckpoint(tensors_of_a_model(head=True))
    expected = reference_logits(checkpoint.values(), IDS, "lm_head.weight")
    torch.testing.assert_close(load(checkpoint, quant=PackedQuant())(IDS), expected, atol=1e-5, rtol=1e-5)


def test_a_missing_component_is_an_error_naming_it() -> None:
    checkpoint = PackedCheckpoint(tensors_of_a_model(head=True), without="h.1.down.step")
    with pytest.raises(ModelError, match=r"1 weights .*layers\.1\.down \(tensor h\.1\.down\.step is missing\)"):
        load(checkpoint, quant=PackedQuant())


def test_packed_tensors_count_for_memory_as_they_are_stored() -> None:
    checkpoint = PackedCheckpoint(tensors_of_a_model(head=True))
    packed = sum(1 for each in checkpoint.tensors() if each.format == "packed.int8")
    plain = sum(4 * torch.Size(each.shape).numel() for each in checkpoint.tensors() if each.format != "packed.int8")
    load(checkpoint, quant=PackedQuant(), available_bytes=packed + plain)
    with pytest.raises(ModelError, match="weights need"):
        load(checkpoint, quant=PackedQuant(), available_bytes=packed + plain - 1)
