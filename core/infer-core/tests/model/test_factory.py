from __future__ import annotations

from typing import Any

import pytest
import torch

from infer.model.dense import DenseQuant
from infer.model.factory import CoreLayerFactory
from infer.ops.table import OpTable
from infer_api.attention import AttentionLayer
from infer_api.errors import ModelError
from infer_api.rope import RopeSpec
from infer_api.specs import AttentionSpec, KVSpec, KVTensor, Part, Retain


def factory() -> CoreLayerFactory:
    ops = OpTable([], "cpu", "float32")
    return CoreLayerFactory(DenseQuant(None), ops, torch.device("cpu"), torch.float32, max_seq_tokens=16)


class Recording:
    """An attention backend that returns q times ten and remembers what it got."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def attend(
        self, layer: AttentionLayer, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, meta: Any, out: torch.Tensor
    ) -> torch.Tensor:
        self.calls.append((layer.name, q.shape, k.shape, v.shape, meta))
        return torch.mul(q, 10, out=out)


def test_attention_reaches_the_backend_and_meta_of_the_step() -> None:
    make, backend = factory(), Recording()
    layer = make.attention("layers.0.attn", AttentionSpec(4, 2, 8, scale=1.0), None)
    make.step.attention, make.step.metas["layers.0.attn"] = backend, "meta"
    q, k, v = torch.randn(3, 64).split([32, 16, 16], -1)
    y = layer(q, k, v)
    assert torch.equal(y, q * 10)
    assert backend.calls == [("layers.0.attn", (3, 4, 8), (3, 2, 8), (3, 2, 8), "meta")]


def test_two_factories_have_steps_of_their_own() -> None:
    assert factory().step is not factory().step


def test_kv_specs_follow_the_attention_layers() -> None:
    make = factory()
    make.attention("a", AttentionSpec(4, 2, 8, scale=1.0), None)
    make.attention("b", AttentionSpec(4, 2, 8, scale=1.0, window=64), None)
    make.attention("encoder", AttentionSpec(4, 4, 8, scale=1.0, causal=False), None)
    tensors = (KVTensor("k", 2, 8), KVTensor("v", 2, 8))
    assert make.kv_specs == {"a": KVSpec(tensors), "b": KVSpec(tensors, retain=Retain(64))}
    assert list(make.attention_layers) == ["a", "b", "encoder"]
    assert make.attention_layers["a"].kv == {}


def test_equal_rope_specs_share_their_tables() -> None:
    make = factory()
    table = make.rotary(RopeSpec(8))
    assert make.rotary(RopeSpec(8)) is table
    assert make.rotary(RopeSpec(8, theta=5.0)) is not table
    assert table.cos_PR.shape == (16, 4)
    assert table.cos_PR is table.cos_PR


def test_layers_are_modules_remembered_by_slot() -> None:
    make = factory()
    made = [
        make.linear("up", 8, [Part("gate", 4), Part("up", 4)], epilogue="silu_mul"),
        make.linear("down", 4, 8),
        make.norm("norm", 8, 1e-5),
        make.embedding("embed", 10, 8, tied=True),
    ]
    assert list(make.layers) == ["up", "down", "norm", "embed"]
    assert all(isinstance(layer, torch.nn.Module) for layer in made)


def test_a_slot_name_may_be_used_once() -> None:
    make = factory()
    make.norm("norm", 8, 1e-5)
    with pytest.raises(ModelError, match="two layers of the model have the weight slot 'norm'"):
        make.norm("norm", 8, 1e-5)
    make.attention("attn", AttentionSpec(4, 2, 8, scale=1.0), None)
    with pytest.raises(ModelError, match="two attention layers of the model are called 'attn'"):
        make.attention("attn", AttentionSpec(4, 2, 8, scale=1.0), None)


def test_ops_come_from_the_table() -> None:
    make = factory()
    assert make.op("silu_mul") is make.op("silu_mul")
