"""Angles against transformers, whose functions state what each rope type of a Hugging Face checkpoint means.

Settings that are not applied are case B71.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from infer.model.rotary import RotaryTable, attention_factor
from infer_api.errors import ModelError
from infer_api.rope import ROPE_TYPES, RopeSpec

HEAD_SIZE, TRAINED, LONGEST = 32, 64, 256
POSITIONS = (0, 1, TRAINED - 1, TRAINED, 100, TRAINED + 50, LONGEST - 1)
LONG = {
    "short_factor": [1.0 + 0.01 * i for i in range(HEAD_SIZE // 2)],
    "long_factor": [2.0 + 0.3 * i for i in range(HEAD_SIZE // 2)],
    "original_max_position_embeddings": TRAINED,
}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": TRAINED}
YARN = {"factor": 4.0, "original_max_position_embeddings": TRAINED}
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "default": ("default", {}, LONGEST),
    "linear": ("linear", {"factor": 2.5}, LONGEST),
    "dynamic": ("dynamic", {"factor": 3.0}, TRAINED),
    "llama3": ("llama3", LLAMA3, LONGEST),
    "yarn": ("yarn", YARN, LONGEST),
    "yarn with mscale": ("yarn", {**YARN, "mscale": 0.8, "mscale_all_dim": 0.5}, LONGEST),
    "yarn with its own factor and betas": ("yarn", {**YARN, "attention_factor": 1.3, "beta_fast": 16.0}, LONGEST),
    "yarn without truncation": ("yarn", {**YARN, "truncate": False}, LONGEST),
    "longrope": ("longrope", LONG, LONGEST),
    "longrope with a factor": ("longrope", {**LONG, "factor": 4.0}, LONGEST),
    "longrope with its own attention factor": ("longrope", {**LONG, "attention_factor": 1.7}, LONGEST),
}


def config_of(kind: str, scaling: dict[str, Any], max_positions: int, partial: float = 1.0) -> LlamaConfig:
    parameters = {"rope_type": kind, "rope_theta": 10000.0, "partial_rotary_factor": partial, **scaling}
    return LlamaConfig(
        hidden_size=4 * HEAD_SIZE,
        num_attention_heads=4,
        head_dim=HEAD_SIZE,
        max_position_embeddings=max_positions,
        rope_parameters=parameters,
    )


def expected(config: LlamaConfig, kind: str, position: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of `position` in a sequence of position + 1 tokens."""
    if kind == "default":
        frequencies, factor = LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    else:
        frequencies, factor = ROPE_INIT_FUNCTIONS[kind](config, torch.device("cpu"), seq_len=position + 1)
    angles = torch.tensor(float(position)) * frequencies
    return angles.cos() * factor, angles.sin() * factor


def test_every_type_has_a_case() -> None:
    assert {kind for kind, _, _ in CASES.values()} == set(ROPE_TYPES)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("spelling", ["rope_parameters", "rope_scaling", "rope_scaling with type"])
def test_tables_agree_with_transformers_at_every_distance(case: str, spelling: str) -> None:
    kind, scaling, max_positions = CASES[case]
    config = config_of(kind, scaling, max_positions)
    stated = {"max_position_embeddings": max_positions, "rope_theta": 10000.0}
    if spelling == "rope_parameters":
        stated["rope_parameters"] = {"rope_type": kind, "rope_theta": 10000.0, **scaling}
    else:
        stated["rope_scaling"] = {"type" if spelling.endswith("with type") else "rope_type": kind, **scaling}
    table = RotaryTable(RopeSpec.from_config(stated, head_size=HEAD_SIZE), LONGEST, torch.device("cpu"))
    assert table.cos_PR.shape == table.sin_PR.shape == (LONGEST, HEAD_SIZE // 2)
    assert table.cos_PR.dtype == torch.float32
    for position in POSITIONS:
        cos, sin = expected(config, kind, position)
        torch.testing.assert_close(table.cos_PR[position], cos, atol=2e-6, rtol=0)
        torch.testing.assert_close(table.sin_PR[position], sin, atol=2e-6, rtol=0)


@pytest.mark.parametrize("kind", ["linear", "dynamic", "llama3", "yarn"])
@pytest.mark.parametrize("key", ["partial_rotary_factor", "rotary_dim"])
def test_a_part_of_the_head_can_be_turned(kind: str, key: str) -> None:
    _, scaling, max_positions = CASES[kind]
    config = config_of(kind, scaling, max_positions, partial=0.5)
    stated = {"max_position_embeddings": max_positions, "rope_scaling": {"rope_type": kind, **scaling}}
    stated[key] = 0.5 if key == "partial_rotary_factor" else HEAD_SIZE // 2
    table = RotaryTable(RopeSpec.from_config(stated, head_size=HEAD_SIZE), LONGEST, torch.device("cpu"))
    assert table.cos_PR.shape == (LONGEST, HEAD_SIZE // 4)
    for position in POSITIONS:
        torch.testing.assert_close(table.cos_PR[position], expected(config, kind, position)[0], atol=2e-6, rtol=0)


def test_scaling_changes_what_the_default_would_give() -> None:
    plain = RotaryTable(RopeSpec(HEAD_SIZE, max_positions=TRAINED), LONGEST, torch.device("cpu"))
    for kind, scaling, max_positions in CASES.values():
        if kind == "default":
            continue
        stated = {"max_position_embeddings": max_positions, "rope_scaling": {"rope_type": kind, **scaling}}
        table = RotaryTable(RopeSpec.from_config(stated, head_size=HEAD_SIZE), LONGEST, torch.device("cpu"))
        assert (table.cos_PR[TRAINED + 50] - plain.cos_PR[TRAINED + 50]).abs().max() > 0.05, kind


def test_a_stated_attention_factor_wins() -> None:
    assert attention_factor(RopeSpec(8, type="yarn", factor=4.0, attention_factor=1.25)) == 1.25
    assert attention_factor(RopeSpec(8, type="linear", factor=4.0)) == 1.0


@pytest.mark.parametrize("kind", ["llama3", "yarn", "dynamic"])
def test_a_type_that_needs_the_trained_length_says_so(kind: str) -> None:
    table = RotaryTable(RopeSpec(8, type=kind, factor=2.0), 4, torch.device("cpu"))
    with pytest.raises(ModelError, match=f"rope type '{kind}' needs the length"):
        _ = table.cos_PR


def test_an_unknown_type_and_a_missing_key_are_errors() -> None:
    with pytest.raises(ModelError, match="rope type 'foo' is not known"):
        RopeSpec.from_config({"rope_scaling": {"type": "foo"}}, head_size=8)
    with pytest.raises(ModelError, match=r"needs the key rope_scaling\.low_freq_factor"):
        RopeSpec.from_config({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, head_size=8)
