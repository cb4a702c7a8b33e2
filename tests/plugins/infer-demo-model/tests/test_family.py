"""The test kit's conformance class, held against the family's own reference, and what is special to the family."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
import torch
from infer_demo_model.checkpoint import CONFIG, write_checkpoint
from infer_demo_model.config import DemoConfig
from infer_demo_model.reference import reference_logits
from safetensors.torch import load_file
from torch import Tensor

from infer_api.errors import ModelError
from infer_api.specs import CheckpointConfig
from infer_testkit.model import ModelConformance


class TestDemo(ModelConformance):
    family = "demo"
    checkpoints = {
        "plain": write_checkpoint,
        "untied": partial(write_checkpoint, tied=False, seed=1),
        "window": partial(write_checkpoint, window=20, seed=2),
        "one block": partial(write_checkpoint, num_blocks=1, key_heads=4, residual_scale=1.5, seed=3),
    }
    required_keys = frozenset({"num_blocks", "stream_width", "vocab_size", "residual_scale"})

    def reference_logits(self, folder: Path, ids: Sequence[int]) -> Tensor:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return reference_logits(config, load_file(folder / "model.safetensors"), torch.tensor(ids))


def read(**changes: object) -> DemoConfig:
    return DemoConfig.read(CheckpointConfig("hf", "config.json", {**CONFIG, **changes}))


def test_later_blocks_add_less() -> None:
    scales = [read(residual_scale=0.8).block_scale(index) for index in range(4)]
    assert scales == pytest.approx([0.8, 0.8 / 2**0.5, 0.8 / 3**0.5, 0.4])


def test_heads_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ModelError, match=r"config\.json: query_heads 4 is not a multiple of key_heads 3"):
        read(key_heads=3)


def test_the_depth_scale_matters_to_the_reference(tmp_path: Path) -> None:
    """Or else parity with it would say nothing of the family's own trait."""
    tensors = load_file(write_checkpoint(tmp_path) / "model.safetensors")
    ids_T = torch.tensor([1, 2, 3])
    one, other = (reference_logits({**CONFIG, "residual_scale": scale}, tensors, ids_T) for scale in (0.8, 0.4))
    assert (one - other).abs().max() > 0.1
