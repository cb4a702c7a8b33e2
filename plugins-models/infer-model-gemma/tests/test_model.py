from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from infer.model.factory import CoreLayerFactory
from infer.ops.table import OpTable
from infer_api.specs import ModelFacts
from infer_model_gemma.family import GemmaFamily
from infer_testkit.plugin import find_manifest, load_implementation, make_plugin
from infer_testkit.tiny_checkpoints import make_gemma3


class OnesInBfloat16(torch.nn.Module):
    def forward(self, ids):
        return torch.ones(len(ids), 80, dtype=torch.bfloat16)


def facts(folder: Path) -> ModelFacts:
    checkpoint = load_implementation(find_manifest("loaders", "safetensors"))(folder, None)
    return GemmaFamily().facts(checkpoint.config())


def factory() -> CoreLayerFactory:
    dense = make_plugin("quantization", "dense")
    return CoreLayerFactory(dense, OpTable([], "cpu", "float32"), torch.device("cpu"), torch.float32, 64)


def test_window_rope_and_cap_reach_each_layer(tmp_path: Path) -> None:
    found = facts(make_gemma3(tmp_path, tokenizer=False))
    make = factory()
    GemmaFamily().build(replace(found, plugin=replace(found.plugin, attn_softcap=50.0)), make)
    layers = list(make.attention_layers.values())
    assert [layer.spec.window for layer in layers] == [12, 12, None]
    assert [layer.rope.spec.theta for layer in layers] == [300.0, 300.0, 5000.0]
    assert {layer.spec.softcap for layer in layers} == {50.0}


def test_the_embedding_scale_is_rounded_to_the_activation_type(tmp_path: Path) -> None:
    model = GemmaFamily().build(facts(make_gemma3(tmp_path, tokenizer=False, hidden_size=80)), factory())
    model.table = OnesInBfloat16()
    assert 80**0.5 != 8.9375
    assert model.embed(torch.tensor([0])).unique().tolist() == [8.9375]
