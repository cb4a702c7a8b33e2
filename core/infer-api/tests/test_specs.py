from __future__ import annotations

from typing import Any

import pytest

from infer_api.errors import ModelError
from infer_api.specs import AttentionSpec, CheckpointConfig, KVGroup, KVSpec, KVTensor, LinearSpec, Part


def config(**values: Any) -> CheckpointConfig:
    return CheckpointConfig(dialect="hf", where="m/config.json", values=values)


def test_the_architecture_is_named_by_each_dialect_in_its_way() -> None:
    assert config(architectures=["XForCausalLM", "Y"]).architecture == "XForCausalLM"
    other = CheckpointConfig("own", "x.own", {"family": "x"}, architecture_key="family")
    assert other.architecture == "x"


@pytest.mark.parametrize("values", [{}, {"architectures": []}, {"architectures": None}])
def test_a_missing_architecture_names_file_and_key(values: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"m/config\.json: the key 'architectures' is missing or empty"):
        _ = config(**values).architecture


def test_a_missing_architecture_of_the_other_dialect_names_its_key() -> None:
    with pytest.raises(ModelError, match=r"x\.own: the key 'family' is missing"):
        _ = CheckpointConfig("own", "x.own", {"architectures": ["x"]}, architecture_key="family").architecture


@pytest.mark.parametrize("values", [{}, {"width": None}])
def test_a_required_key_that_is_missing_or_null_names_file_and_key(values: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match=r"^m/config\.json: the key 'width' is missing$"):
        config(**values).require("width")


def test_values_that_look_like_nothing_are_values() -> None:
    assert config(width=0).require("width") == 0
    assert config(flag=False).get("flag", True) is False
    assert config(flag=None).get("flag", True) is True
    assert config().get("flag") is None


@pytest.mark.parametrize("value", [5, True, {"a": 1}, [5]])
def test_an_architecture_that_is_no_name_names_file_and_key(value: object) -> None:
    with pytest.raises(ModelError, match=r"m/config\.json: the key 'architectures' must be a name"):
        _ = config(architectures=value).architecture


@pytest.mark.parametrize("value", ["x", [], True, 0, -1.0, float("nan"), float("inf"), 10**400])
def test_a_number_key_of_another_form_is_named(value: object) -> None:
    with pytest.raises(ModelError, match=r"m/config\.json: the key 'eps' must be a number above 0"):
        config(eps=value).get_float("eps", 1.0)


def test_optional_numbers_have_defaults_and_bounds() -> None:
    assert config().get_float("eps", None) is None
    assert config(eps=2).get_float("eps", 1.0) == 2.0
    assert config(width=None).get_int("width", 7) == 7
    with pytest.raises(ModelError, match="'width' must be a positive integer, at most 4, found 5"):
        config(width=5).get_int("width", 7, 4)


@pytest.mark.parametrize("value", ["12", 12.0, True, 0, -1, [12]])
def test_an_integer_key_of_another_form_is_named_with_what_was_found(value: object) -> None:
    with pytest.raises(
        ModelError, match="the key 'width' must be a positive integer, at most 2147483647, found "
    ) as caught:
        config(width=value).require_int("width")
    assert repr(value) in str(caught.value)


def test_an_integer_key_is_returned() -> None:
    assert config(width=12).require_int("width") == 12


def test_slots_and_width_of_a_linear_come_from_its_parts() -> None:
    parts = (Part("q", 8), Part("k", 4))
    spec = LinearSpec("layers.3.attn.qkv", 16, parts)
    assert spec.d_out == 12
    assert [spec.slot(part) for part in parts] == ["layers.3.attn.qkv#q", "layers.3.attn.qkv#k"]
    assert LinearSpec("o", 8, (Part("", 16),)).slot(Part("", 16)) == "o"


@pytest.mark.parametrize("parts", [(Part("gate", 8),), (Part("gate", 8), Part("up", 9))])
def test_a_gated_linear_needs_two_equal_parts(parts: tuple[Part, ...]) -> None:
    with pytest.raises(ModelError, match="'mlp': epilogue 'silu_mul' needs two parts of equal width"):
        LinearSpec("mlp", 16, parts, epilogue="silu_mul")


@pytest.mark.parametrize("num_kv_heads", [0, 3])
def test_query_heads_must_be_a_multiple_of_kv_heads(num_kv_heads: int) -> None:
    with pytest.raises(ModelError, match=f"8 query heads are not a multiple of {num_kv_heads}"):
        AttentionSpec(num_heads=8, num_kv_heads=num_kv_heads, head_size=16, scale=1.0)


def test_specs_compare_by_value_so_that_layers_can_be_grouped() -> None:
    one, other = (KVSpec((KVTensor("k", 2, 16), KVTensor("v", 2, 16))) for _ in range(2))
    assert one == other
    assert len({one, other}) == 1
    assert list(KVGroup(0, one, ("a", "b"), 16)) == ["a", "b"]
