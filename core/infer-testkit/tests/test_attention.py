"""The kit for attention backends accepts a right one and catches wrong ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from infer_api.attention import AttentionLayer
from infer_testkit.attention import AttentionConformance
from infer_testkit.fakes.attention import PlainAttention


class IgnoresRope(PlainAttention):
    def attend(self, layer, q, k, v, meta, out):
        return super().attend(replace(layer, rope=None), q, k, v, meta, out)


class WindowOneTooWide(PlainAttention):
    def attend(self, layer, q, k, v, meta, out):
        window = layer.spec.window
        return super().attend(_with_spec(layer, window=window and window + 1), q, k, v, meta, out)


class IgnoresCap(PlainAttention):
    def attend(self, layer, q, k, v, meta, out):
        return super().attend(_with_spec(layer, softcap=None), q, k, v, meta, out)


class AlwaysCausal(PlainAttention):
    def attend(self, layer, q, k, v, meta, out):
        return super().attend(_with_spec(layer, causal=True), q, k, v, meta, out)


class ForgetsTheCache(PlainAttention):
    def attend(self, layer, q, k, v, meta, out):
        kept = {name: tensor.clone() for name, tensor in layer.kv.items()}
        result = super().attend(layer, q, k, v, meta, out)
        for name, tensor in kept.items():
            layer.kv[name].copy_(tensor)
        return result


class WritesToACopy(PlainAttention):
    def attend(self, layer, q, k, v, meta, out):
        contiguous = {name: tensor.contiguous() for name, tensor in layer.kv.items()}
        return super().attend(replace(layer, kv=contiguous), q, k, v, meta, out)


class ReturnsAnotherTensor(PlainAttention):
    def attend(self, layer, q, k, v, meta, out):
        return super().attend(layer, q, k, v, meta, out).clone()


class LeavesTheLastTokenOut(PlainAttention):
    def attend(self, layer, q, k, v, meta, out):
        last = out[-1].clone()
        super().attend(layer, q, k, v, meta, out)
        out[-1] = last
        return out


class LeaksItsNeighbours(PlainAttention):
    def attend(self, layer, q, k, v, meta, out):
        super().attend(layer, q, k, v, meta, out)
        return out.add_(0 * v.sum())


class ReadsTheNullBlock(PlainAttention):
    def attend(self, layer, q, k, v, meta, out):
        super().attend(layer, q, k, v, meta, out)
        return out.add_(0 * layer.kv["v"][0].sum()) if layer.kv else out


class IsNotDeterministic(PlainAttention):
    def attend(self, layer, q, k, v, meta, out):
        return super().attend(layer, q, k, v, meta, out).add_(torch.randn(out.shape) * 1e-6)


def _with_spec(layer: AttentionLayer, **changes) -> AttentionLayer:
    return replace(layer, spec=replace(layer.spec, **changes))


class Kit(AttentionConformance):
    """Not collected: its tests are called below."""

    backend = "unregistered"
    build = PlainAttention

    def make_backend(self):
        return self.build()


CASES = [
    ("test_refuses_an_unknown_dtype_with_a_reason", {}),
    ("test_layout_counts_the_bytes_of_its_shapes", {}),
    ("test_prompts_of_odd_lengths", {"shape": "odd groups"}),
    ("test_prompts_of_equal_length", {}),
    ("test_a_prompt_in_chunks", {"chunk": 5}),
    ("test_decoding_rows_of_very_different_lengths", {}),
    ("test_decodes_beside_chunks_and_new_prompts", {}),
    ("test_a_row_is_the_same_alone_and_in_company", {}),
    ("test_the_same_step_gives_the_same_bits", {}),
    ("test_a_prefix_shared_with_another_row", {}),
    ("test_blocks_of_a_failed_row_can_be_used_again", {}),
    ("test_a_failed_row_does_not_touch_its_neighbours", {}),
    ("test_blocks_that_are_not_adjacent_in_memory", {}),
    ("test_a_sliding_window", {"window": 7}),
    ("test_capped_scores", {"window": 20}),
    ("test_attention_in_both_directions", {"softcap": None}),
    ("test_without_rope", {}),
    ("test_rope_over_a_part_of_the_head", {"interleaved": True}),
    ("test_layers_of_one_group_may_differ_in_rope", {}),
]

FAULTS = [
    (IgnoresRope, "test_prompts_of_odd_lengths", {"shape": "plain"}),
    (WindowOneTooWide, "test_a_sliding_window", {"window": 7}),
    (IgnoresCap, "test_capped_scores", {"window": None}),
    (AlwaysCausal, "test_attention_in_both_directions", {"softcap": None}),
    (ForgetsTheCache, "test_decodes_beside_chunks_and_new_prompts", {}),
    (WritesToACopy, "test_blocks_that_are_not_adjacent_in_memory", {}),
    (ReturnsAnotherTensor, "test_prompts_of_equal_length", {}),
    (LeavesTheLastTokenOut, "test_prompts_of_equal_length", {}),
    (LeaksItsNeighbours, "test_a_failed_row_does_not_touch_its_neighbours", {}),
    (ReadsTheNullBlock, "test_decoding_rows_of_very_different_lengths", {}),
    (IsNotDeterministic, "test_the_same_step_gives_the_same_bits", {}),
]


def call(backend: type, name: str, arguments: dict) -> None:
    kit = Kit()
    kit.build = backend
    method = getattr(kit, name)
    if "rng" in method.__code__.co_varnames[: method.__code__.co_argcount]:
        arguments = {**arguments, "rng": torch.Generator().manual_seed(7)}
    method(**arguments)


@pytest.mark.parametrize(("name", "arguments"), CASES)
def test_a_right_backend_passes(name: str, arguments: dict) -> None:
    call(PlainAttention, name, arguments)


@pytest.mark.parametrize(("backend", "name", "arguments"), FAULTS)
def test_a_wrong_backend_is_caught(backend: type, name: str, arguments: dict) -> None:
    with pytest.raises(AssertionError):
        call(backend, name, arguments)


def test_every_test_of_the_kit_is_tried_here() -> None:
    own = {name for name in vars(AttentionConformance) if name.startswith("test_")}
    assert own == {name for name, _ in CASES}
