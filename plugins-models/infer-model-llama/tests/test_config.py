from __future__ import annotations

import pytest

from infer_api.errors import ModelError
from infer_api.rope import RopeSpec
from infer_api.specs import CheckpointConfig
from infer_model_llama.config import LlamaConfig

HF = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "max_position_embeddings": 512,
}
GGUF = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 128,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.context_length": 512,
    "llama.rope.freq_base": 500000.0,
    "llama.rope.dimension_count": 16,
    "tokenizer.ggml.tokens": ["a"] * 100,
}


def hf(**values) -> LlamaConfig:
    return LlamaConfig.read(CheckpointConfig("hf", "config.json", {**HF, **values}))


def gguf(*tensors: str, **values) -> LlamaConfig:
    config = CheckpointConfig(
        "gguf", "m.gguf", {**GGUF, **values}, frozenset(tensors), architecture_key="general.architecture"
    )
    return LlamaConfig.read(config)


def test_head_size_and_kv_heads_follow_from_the_rest_when_left_out() -> None:
    config = hf()
    assert (config.head_size, config.num_kv_heads, config.rope.rotary_size) == (16, 4, 16)


def test_a_stated_head_size_wins() -> None:
    assert hf(head_dim=24).rope.rotary_size == hf(head_dim=24).head_size == 24


def test_only_a_mistral_has_a_window() -> None:
    assert hf(sliding_window=32).window is None
    assert hf(architectures=["MistralForCausalLM"], sliding_window=32).window == 32
    assert hf(architectures=["MistralForCausalLM"], sliding_window=None).window is None
    assert hf(architectures=["MistralForCausalLM"]).window == 4096


def test_an_unknown_activation_is_named() -> None:
    with pytest.raises(ModelError, match=r"config\.json: hidden_act 'relu'"):
        hf(hidden_act="relu")


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size"])
def test_a_missing_size_is_named(key: str) -> None:
    with pytest.raises(ModelError, match=key):
        hf(**{key: None})


def test_an_unknown_rope_is_named() -> None:
    with pytest.raises(ModelError, match="spiral"):
        hf(rope_scaling={"rope_type": "spiral", "factor": 2.0})


def test_gguf_keys_are_read() -> None:
    config = gguf("output.weight")
    assert (config.num_layers, config.width, config.ffn_width, config.vocab_size) == (2, 64, 128, 100)
    assert (config.num_heads, config.num_kv_heads, config.head_size) == (4, 2, 16)
    assert config.rope == RopeSpec(16, 500000.0, max_positions=512)
    assert not config.tied


def test_gguf_without_an_output_tensor_is_tied() -> None:
    assert gguf("token_embd.weight").tied


def test_gguf_biases_show_among_the_tensors() -> None:
    config = gguf("blk.0.attn_q.bias", "blk.0.ffn_gate.bias")
    assert (config.qkv_bias, config.o_bias, config.mlp_bias) == (True, False, True)


def test_gguf_vocabulary_size_may_be_a_key() -> None:
    assert gguf(**{"tokenizer.ggml.tokens": None, "llama.vocab_size": 77}).vocab_size == 77
    with pytest.raises(ModelError, match=r"llama\.vocab_size"):
        gguf(**{"tokenizer.ggml.tokens": None})


def test_gguf_linear_scaling() -> None:
    rope = gguf(**{"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}).rope
    assert (rope.type, rope.factor) == ("linear", 4.0)


def test_gguf_yarn_scaling_multiplies_its_own_attention_factor() -> None:
    values = {
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 128,
    }
    rope = gguf(**values).rope
    assert (rope.type, rope.factor, rope.original_positions, rope.attention_factor) == ("yarn", 4.0, 128, 0.0)
    stated = gguf(**values, **{"llama.rope.scaling.attn_factor": 0.5}).rope.attention_factor
    assert stated == pytest.approx(0.5 * 1.1386294)


def test_gguf_unknown_scaling_is_named() -> None:
    with pytest.raises(ModelError, match=r"m\.gguf: llama\.rope\.scaling\.type 'spiral'"):
        gguf(**{"llama.rope.scaling.type": "spiral", "llama.rope.scaling.factor": 2.0})


def test_gguf_rope_factors_are_used_when_the_loader_publishes_them() -> None:
    rope = gguf("rope_freqs.weight", **{"rope_freqs.weight": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]}).rope
    assert rope.short_factor == rope.long_factor == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    assert (rope.type, rope.attention_factor) == ("longrope", 1.0)


def test_gguf_rope_factors_that_are_out_of_reach_are_refused() -> None:
    with pytest.raises(ModelError, match=r"rope_freqs\.weight.*not in the configuration"):
        gguf("rope_freqs.weight")


def test_gguf_rope_factors_of_the_wrong_number_are_refused() -> None:
    with pytest.raises(ModelError, match="has 3 values, but the rope has 8 pairs"):
        gguf("rope_freqs.weight", **{"rope_freqs.weight": [1.0, 2.0, 3.0]})


def test_gguf_mixtures_of_experts_are_refused() -> None:
    with pytest.raises(ModelError, match="expert_count is 8"):
        gguf(**{"llama.expert_count": 8})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("head_dim", "x"),
        ("head_dim", []),
        ("num_key_value_heads", {}),
        ("rms_norm_eps", []),
        ("num_hidden_layers", 10**30),
        ("hidden_size", 10**30),
        ("max_position_embeddings", 10**30),
        ("rope_theta", "x"),
    ],
)
def test_a_value_of_a_wrong_type_names_file_and_key(key: str, value: object) -> None:
    with pytest.raises(ModelError, match=rf"config\.json: .*{key}"):
        hf(**{key: value})


@pytest.mark.parametrize("window", ["x", [], 0, True])
def test_a_window_of_mistral_that_is_no_length_is_refused(window: object) -> None:
    with pytest.raises(ModelError, match="sliding_window"):
        hf(architectures=["MistralForCausalLM"], sliding_window=window)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("llama.block_count", 10**9),
        ("llama.attention.head_count_kv", [2, 2]),
        ("llama.attention.layer_norm_rms_epsilon", "x"),
        ("llama.attention.sliding_window", 0),
        ("llama.rope.freq_base", "x"),
        ("llama.rope.scaling.factor", []),
    ],
)
def test_a_gguf_value_of_a_wrong_type_names_file_and_key(key: str, value: object) -> None:
    with pytest.raises(ModelError, match=rf"m\.gguf: .*{key}"):
        gguf(**{key: value})


def test_a_gguf_scaling_factor_of_zero_means_none() -> None:
    assert gguf(**{"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 0.0}).rope.type == "default"
