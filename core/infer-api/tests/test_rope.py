"""Rope settings of a checkpoint reach the model as written, or loading stops (fault B71)."""

from __future__ import annotations

from typing import Any

import pytest

from infer_api.errors import ModelError
from infer_api.rope import ROPE_TYPES, RopeSpec

SCALINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"factor": 2.0},
    "dynamic": {"factor": 3.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.5,
        "high_freq_factor": 5.0,
        "original_max_position_embeddings": 512,
    },
    "yarn": {"factor": 4.0, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False, "attention_factor": 1.2},
    "longrope": {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "original_max_position_embeddings": 512},
}


def spec(head_size: int = 16, layer_type: str | None = None, **config: Any) -> RopeSpec:
    return RopeSpec.from_config({"max_position_embeddings": 4096, **config}, head_size=head_size, layer_type=layer_type)


def test_every_type_has_a_sample_here() -> None:
    assert set(SCALINGS) == set(ROPE_TYPES)


@pytest.mark.parametrize("kind", ROPE_TYPES)
def test_both_spellings_and_both_names_of_the_type_give_the_same_spec(kind: str) -> None:
    scaling = SCALINGS[kind]
    old = spec(rope_theta=5e5, rope_scaling={"rope_type": kind, **scaling})
    short = spec(rope_theta=5e5, rope_scaling={"type": kind, **scaling})
    new = spec(rope_parameters={"rope_type": kind, "rope_theta": 5e5, **scaling})
    assert old == short == new
    assert (old.type, old.theta, old.max_positions) == (kind, 5e5, 4096)


@pytest.mark.parametrize("kind", ROPE_TYPES)
def test_every_value_of_the_file_is_taken(kind: str) -> None:
    found = spec(rope_scaling={"rope_type": kind, **SCALINGS[kind]})
    names = {"original_max_position_embeddings": "original_positions"}
    for key, value in SCALINGS[kind].items():
        expected = tuple(value) if isinstance(value, list) else value
        assert getattr(found, names.get(key, key)) == expected, key


@pytest.mark.parametrize(
    ("kind", "key"),
    [(kind, key) for kind in ROPE_TYPES for key in SCALINGS[kind] if key in ("factor", "low_freq_factor")]
    + [("llama3", "high_freq_factor"), ("llama3", "original_max_position_embeddings")]
    + [("longrope", "short_factor"), ("longrope", "long_factor")],
)
def test_a_missing_key_is_an_error_naming_file_type_and_key(kind: str, key: str) -> None:
    scaling = {name: value for name, value in SCALINGS[kind].items() if name != key}
    with pytest.raises(ModelError, match=rf"^config\.json: rope type '{kind}' needs the key rope_scaling\.{key}"):
        spec(rope_scaling={"rope_type": kind, **scaling})


@pytest.mark.parametrize("key", ["type", "rope_type"])
def test_an_unknown_type_is_an_error_that_lists_the_known_ones(key: str) -> None:
    with pytest.raises(ModelError, match=r"config\.json: rope type 'foo' is not known \(known: default, linear"):
        spec(rope_scaling={key: "foo", "factor": 2.0})


def test_without_any_setting_the_default_rope_is_meant() -> None:
    assert spec() == RopeSpec(rotary_size=16, max_positions=4096, original_positions=4096)
    assert spec(rope_scaling=None, rope_theta=None) == spec()


def test_the_original_length_may_stand_beside_the_scaling() -> None:
    beside = spec(original_max_position_embeddings=1024, rope_scaling={"rope_type": "yarn", "factor": 4.0})
    assert beside.original_positions == 1024


def test_longrope_without_a_factor_derives_it_from_the_lengths() -> None:
    assert spec(rope_scaling={"type": "longrope", **SCALINGS["longrope"]}).factor == 4096 / 512


def test_longrope_factors_must_have_one_entry_per_pair() -> None:
    with pytest.raises(ModelError, match="needs short_factor and long_factor of 8 entries, found 7 and 8"):
        spec(rope_scaling={"type": "longrope", **SCALINGS["longrope"], "short_factor": [1.0] * 7})


@pytest.mark.parametrize(
    "config",
    [
        {"partial_rotary_factor": 0.5},
        {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
        {"rotary_dim": 8},
        {"rotary_dim": 8, "partial_rotary_factor": 0.25},
    ],
)
def test_part_of_a_head_may_be_turned(config: dict[str, Any]) -> None:
    assert spec(head_size=16, **config).rotary_size == 8


@pytest.mark.parametrize("size", [0, -2, 7])
def test_a_rotary_size_that_makes_no_pairs_is_an_error(size: int) -> None:
    with pytest.raises(ModelError, match=f"rotary size {size} must be positive and even"):
        RopeSpec(rotary_size=size)


def test_parameters_by_layer_type() -> None:
    parameters = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
    full = spec(layer_type="full_attention", rope_parameters=parameters)
    sliding = spec(layer_type="sliding_attention", rope_parameters=parameters)
    assert (full.type, full.factor, full.theta) == ("linear", 8.0, 1e6)
    assert (sliding.type, sliding.theta) == ("default", 1e4)


def test_an_unknown_type_made_directly_is_an_error() -> None:
    with pytest.raises(ModelError, match="rope type 'foo' is not known"):
        RopeSpec(rotary_size=8, type="foo")


def test_parameters_keyed_by_layer_type_need_the_layer_type() -> None:
    config = {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0}}}
    assert RopeSpec.from_config(config, head_size=8, layer_type="full_attention").factor == 2.0
    for layer_type in (None, "sliding_attention"):
        with pytest.raises(ModelError, match=r"entries for full_attention"):
            RopeSpec.from_config(config, head_size=8, layer_type=layer_type)


def test_a_factor_of_zero_and_a_scaling_that_is_no_object_are_errors() -> None:
    with pytest.raises(ModelError, match=r"factor must be above 0, found 0"):
        RopeSpec.from_config({"rope_scaling": {"type": "linear", "factor": 0}}, head_size=8)
    with pytest.raises(ModelError, match=r"rope_scaling must be an object, found 'linear'"):
        RopeSpec.from_config({"rope_scaling": "linear"}, head_size=8)
