from __future__ import annotations

import pytest

from infer_api.errors import ModelError
from infer_api.specs import CheckpointConfig
from infer_model_gemma.config import GemmaConfig

HF = {
    "architectures": ["Gemma3ForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 7,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "vocab_size": 100,
    "max_position_embeddings": 512,
    "sliding_window": 32,
    "query_pre_attn_scalar": 64,
}
GGUF = {
    "general.architecture": "gemma3",
    "gemma3.block_count": 7,
    "gemma3.embedding_length": 64,
    "gemma3.feed_forward_length": 128,
    "gemma3.attention.head_count": 4,
    "gemma3.attention.head_count_kv": 1,
    "gemma3.attention.key_length": 16,
    "gemma3.attention.sliding_window": 32,
    "gemma3.attention.layer_norm_rms_epsilon": 1e-6,
    "gemma3.context_length": 512,
    "tokenizer.ggml.tokens": ["a"] * 100,
}
FIVE_OF_SIX = (32, 32, 32, 32, 32, None, 32)


def hf(*tensors: str, **values) -> GemmaConfig:
    return GemmaConfig.read(CheckpointConfig("hf", "config.json", {**HF, **values}, frozenset(tensors)))


def gguf(*tensors: str, **values) -> GemmaConfig:
    merged = {**GGUF, **values}
    config = CheckpointConfig("gguf", "m.gguf", merged, frozenset(tensors), architecture_key="general.architecture")
    return GemmaConfig.read(config)


def test_every_sixth_layer_sees_everything() -> None:
    assert hf().windows == gguf().windows == FIVE_OF_SIX


def test_layer_types_win_over_the_pattern() -> None:
    types = ["full_attention"] * 6 + ["sliding_attention"]
    assert hf(layer_types=types, sliding_window_pattern=2).windows == (None,) * 6 + (32,)


def test_a_stated_pattern_is_followed() -> None:
    assert hf(sliding_window_pattern=3).windows == (32, 32, None, 32, 32, None, 32)
    stated = [True, False] * 3 + [True]
    assert gguf(**{"gemma3.attention.sliding_window_pattern": stated}).windows == (32, None, 32, None, 32, None, 32)


@pytest.mark.parametrize("types", [["full_attention"], ["full_attention"] * 6 + ["chunked_attention"]])
def test_layer_types_that_do_not_fit_are_refused(types: list[str]) -> None:
    with pytest.raises(ModelError, match="layer_types must have 7 entries"):
        hf(layer_types=types)


def test_local_and_global_ropes_have_their_own_base() -> None:
    for config in (hf(), gguf()):
        assert (config.global_rope.theta, config.local_rope.theta) == (1_000_000.0, 10_000.0)


def test_old_keys_scale_the_global_rope_only() -> None:
    config = hf(rope_theta=5e5, rope_local_base_freq=2e4, rope_scaling={"rope_type": "linear", "factor": 8.0})
    assert (config.global_rope.theta, config.global_rope.type, config.global_rope.factor) == (5e5, "linear", 8.0)
    assert (config.local_rope.theta, config.local_rope.type) == (2e4, "default")


def test_new_keys_are_read_by_layer_type() -> None:
    parameters = {
        "full_attention": {"rope_type": "linear", "rope_theta": 5e5, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
    }
    config = hf(rope_parameters=parameters)
    assert (config.global_rope.theta, config.global_rope.factor, config.local_rope.theta) == (5e5, 8.0, 2e4)
    assert config.local_rope.type == "default"


def test_gguf_scales_the_global_rope_only() -> None:
    config = gguf(**{"gemma3.rope.scaling.type": "linear", "gemma3.rope.scaling.factor": 8.0})
    assert (config.global_rope.type, config.global_rope.factor, config.local_rope.type) == ("linear", 8.0, "default")


def test_the_scale_of_attention() -> None:
    assert hf().attn_scale == 1 / 8
    assert gguf().attn_scale == 1 / 4
    assert gguf(**{"gemma3.block_count": 62}).attn_scale == (64 / 4) ** -0.5


def test_norms_are_offsets_in_one_dialect_and_factors_in_the_other() -> None:
    assert (hf().norm_style, gguf().norm_style) == ("rms_unit_offset", "rms")


def test_caps_are_read() -> None:
    config = hf(attn_logit_softcapping=50.0, final_logit_softcapping=30.0)
    assert (config.attn_softcap, config.final_softcap) == (50.0, 30.0)


def test_embedding_models_are_refused() -> None:
    with pytest.raises(ModelError, match="use_bidirectional_attention"):
        hf(use_bidirectional_attention=True)


def test_the_text_part_of_a_multimodal_checkpoint() -> None:
    text = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "sliding_window": 9}
    values = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": text, "torch_dtype": "bfloat16"}
    tensors = frozenset({"language_model.model.embed_tokens.weight"})
    config = GemmaConfig.read(CheckpointConfig("hf", "config.json", values, tensors))
    assert (config.num_heads, config.num_kv_heads, config.head_size, config.vocab_size) == (8, 4, 256, 262_208)
    assert (config.windows, config.dtype, config.prefix) == ((9, 9), "bfloat16", "language_model.model.")


@pytest.mark.parametrize("key", ["head_dim", "num_key_value_heads", "vocab_size"])
def test_a_missing_size_is_named(key: str) -> None:
    with pytest.raises(ModelError, match=key):
        hf(**{key: None})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("layer_types", 5),
        ("layer_types", [[]] * 7),
        ("head_dim", "x"),
        ("rms_norm_eps", []),
        ("sliding_window", 0),
        ("sliding_window", True),
        ("sliding_window_pattern", 0),
        ("query_pre_attn_scalar", 0),
        ("final_logit_softcapping", "x"),
        ("num_hidden_layers", 10**30),
        ("rope_theta", "x"),
        ("rope_parameters", 5),
    ],
)
def test_a_value_of_a_wrong_type_names_file_and_key(key: str, value: object) -> None:
    with pytest.raises(ModelError, match=rf"config\.json: .*{key}"):
        hf(**{key: value})


def test_a_text_part_that_is_no_object_is_refused() -> None:
    with pytest.raises(ModelError, match="text_config"):
        hf(architectures=["Gemma3ForConditionalGeneration"], text_config=5)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gemma3.block_count", 10**9),
        ("gemma3.attention.sliding_window_pattern", 0),
        ("gemma3.attention.sliding_window_pattern", "x"),
        ("gemma3.attention.layer_norm_rms_epsilon", "x"),
        ("gemma3.attention.scale", 0),
        ("gemma3.rope.scaling.factor", []),
    ],
)
def test_a_gguf_value_of_a_wrong_type_names_file_and_key(key: str, value: object) -> None:
    with pytest.raises(ModelError, match=rf"m\.gguf: .*{key}"):
        gguf(**{key: value})
