from __future__ import annotations

import torch

from infer_api.rope import RopeSpec
from infer_api.specs import AttentionSpec
from infer_testkit.fakes.model import HEAD_SIZE, HEADS, TwoLayerFamily, two_layer_checkpoint
from infer_testkit.model_run import ModelRun
from infer_testkit.plugin import make_plugin
from infer_testkit.reference import attend, rotary_tables, rotate


def by_hand(ids: list[int]) -> torch.Tensor:
    """Logits of the two-layer model, from the checkpoint's tensors alone."""
    checkpoint = two_layer_checkpoint()
    weight = {info.name: checkpoint.read(info.name).values for info in checkpoint.tensors()}
    tables, positions = rotary_tables(RopeSpec(HEAD_SIZE), 256), torch.arange(len(ids))
    x = weight["embed.weight"][ids]
    for layer in range(2):
        y = torch.rms_norm(x, (16,), weight[f"layers.{layer}.norm.weight"], 1e-6)
        q, k, v = ((y @ weight[f"layers.{layer}.{n}.weight"].T).view(-1, HEADS, HEAD_SIZE) for n in "qkv")
        spec = AttentionSpec(HEADS, HEADS, HEAD_SIZE, HEAD_SIZE**-0.5)
        x = x + attend(rotate(q, tables, positions), rotate(k, tables, positions), v.double(), spec).float().flatten(1)
    return torch.rms_norm(x, (16,), weight["norm.weight"], 1e-6) @ weight["embed.weight"].T


def test_the_two_layer_model_computes_what_its_tensors_say() -> None:
    ids = [5, 250, 17, 17, 99]
    run = ModelRun(TwoLayerFamily(), two_layer_checkpoint(), make_plugin("quantization", "dense"))
    torch.testing.assert_close(run.step({"a": ids})["a"], by_hand(ids), rtol=1e-4, atol=1e-4)


def test_sequences_keep_their_own_history() -> None:
    a, b = [1, 2, 3, 4], [200, 100, 50, 25]
    run = ModelRun(TwoLayerFamily(), two_layer_checkpoint(), make_plugin("quantization", "dense"))
    run.step({"a": a[:3], "b": b[:1]})
    last = run.step({"a": a[3:], "b": b[1:]})
    torch.testing.assert_close(last["a"], by_hand(a)[3:], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(last["b"], by_hand(b)[1:], rtol=1e-4, atol=1e-4)
