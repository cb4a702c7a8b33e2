"""The numbers of a llama-like model, read from either dialect."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infer_api.errors import ModelError
from infer_api.rope import RopeSpec
from infer_api.specs import MAX_LAYERS, MAX_WIDTH, CheckpointConfig, Epilogue

__all__ = ["ROPE_FACTORS", "LlamaConfig"]

ROPE_FACTORS = "rope_freqs.weight"
"""GGUF tensor that holds what a llama3 rope divides its frequencies by."""

MAX_HEAD = 4096
"""Widest head: tables of angles grow with it and with the context."""
ACTIVATIONS: Mapping[str, Epilogue] = {
    "silu": "silu_mul",
    "swish": "silu_mul",
    "gelu_pytorch_tanh": "gelu_tanh_mul",
}
FACTOR_KEYS = ("llama.rope.scaling.factor", "llama.rope.scale_linear")
MISTRAL = "MistralForCausalLM"
MISTRAL_WINDOW = 4096
"""Window of a Mistral whose configuration leaves the key out."""


@dataclass(frozen=True)
class LlamaConfig:
    """What `model.py` builds from. Sizes are in values; `window` counts the tokens a query sees, itself included."""

    num_layers: int
    width: int
    ffn_width: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    norm_eps: float
    vocab_size: int
    max_positions: int
    rope: RopeSpec
    tied: bool
    dtype: str
    window: int | None = None
    activation: Epilogue = "silu_mul"
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False

    @classmethod
    def read(cls, config: CheckpointConfig) -> LlamaConfig:
        """From the dialect of `config`. Raises ModelError naming file and key."""
        return cls.from_gguf(config) if config.dialect == "gguf" else cls.from_hf(config)

    @classmethod
    def from_hf(cls, config: CheckpointConfig) -> LlamaConfig:
        """From a config.json. Raises ModelError naming file and key."""
        width = config.require_int("hidden_size", MAX_WIDTH)
        num_heads = config.require_int("num_attention_heads", MAX_WIDTH)
        head_size = config.get_int("head_dim", width // num_heads, MAX_HEAD)
        attention_bias = bool(config.get("attention_bias", False))
        return cls(
            num_layers=config.require_int("num_hidden_layers", MAX_LAYERS),
            width=width,
            ffn_width=config.require_int("intermediate_size", MAX_WIDTH),
            num_heads=num_heads,
            num_kv_heads=config.get_int("num_key_value_heads", num_heads, MAX_WIDTH),
            head_size=head_size,
            norm_eps=config.get_float("rms_norm_eps", 1e-6),
            vocab_size=config.require_int("vocab_size"),
            max_positions=config.require_int("max_position_embeddings"),
            rope=_hf_rope(config, head_size),
            tied=bool(config.get("tie_word_embeddings", False)),
            dtype=str(config.get("dtype", config.get("torch_dtype", "float32"))),
            window=_hf_window(config),
            activation=_activation(config),
            qkv_bias=attention_bias,
            o_bias=attention_bias,
            mlp_bias=bool(config.get("mlp_bias", False)),
        )

    @classmethod
    def from_gguf(cls, config: CheckpointConfig) -> LlamaConfig:
        """From GGUF metadata. Raises ModelError naming file and key."""
        if config.get("llama.expert_count", 0):
            raise ModelError(
                f"{config.where}: llama.expert_count is {config.get('llama.expert_count')}; mixtures of experts need "
                "another model plugin"
            )
        width = config.require_int("llama.embedding_length", MAX_WIDTH)
        num_heads = config.require_int("llama.attention.head_count", MAX_WIDTH)
        head_size = config.get_int("llama.attention.key_length", width // num_heads, MAX_HEAD)
        return cls(
            num_layers=config.require_int("llama.block_count", MAX_LAYERS),
            width=width,
            ffn_width=config.require_int("llama.feed_forward_length", MAX_WIDTH),
            num_heads=num_heads,
            num_kv_heads=config.get_int("llama.attention.head_count_kv", num_heads, MAX_WIDTH),
            head_size=head_size,
            norm_eps=config.require_float("llama.attention.layer_norm_rms_epsilon"),
            vocab_size=_gguf_vocab_size(config),
            max_positions=config.require_int("llama.context_length"),
            rope=_gguf_rope(config, head_size),
            tied="output.weight" not in config.tensors,
            dtype="float32",
            window=config.get_int("llama.attention.sliding_window", None),
            qkv_bias="blk.0.attn_q.bias" in config.tensors,
            o_bias="blk.0.attn_output.bias" in config.tensors,
            mlp_bias="blk.0.ffn_gate.bias" in config.tensors,
        )


def _hf_window(config: CheckpointConfig) -> int | None:
    if config.architecture != MISTRAL:
        return None
    return config.get_int("sliding_window", None if "sliding_window" in config.values else MISTRAL_WINDOW)


def _hf_rope(config: CheckpointConfig, head_size: int) -> RopeSpec:
    try:
        return RopeSpec.from_config(config.values, head_size=head_size, where=config.where)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(
            f"{config.where}: a value of the rope (rope_theta, rope_scaling, …) is wrong: {error}"
        ) from error


def _activation(config: CheckpointConfig) -> Epilogue:
    name = str(config.get("hidden_act", "silu"))
    if name not in ACTIVATIONS:
        raise ModelError(f"{config.where}: hidden_act {name!r} is not supported (supported: {', '.join(ACTIVATIONS)})")
    return ACTIVATIONS[name]


def _gguf_vocab_size(config: CheckpointConfig) -> int:
    tokens = config.get("tokenizer.ggml.tokens")
    return len(tokens) if isinstance(tokens, Sequence) and tokens else config.require_int("llama.vocab_size")


def _gguf_rope(config: CheckpointConfig, head_size: int) -> RopeSpec:
    """Rows of q and k are put back into the order of halves by the weight map, so the rope is not interleaved."""
    size = config.get_int("llama.rope.dimension_count", head_size, MAX_HEAD)
    theta = config.get_float("llama.rope.freq_base", 10000.0)
    positions = config.require_int("llama.context_length")
    if ROPE_FACTORS in config.tensors:
        return _rope_with_factors(config, size, theta, positions)
    kind = str(config.get("llama.rope.scaling.type", "none"))
    key = next((one for one in FACTOR_KEYS if config.get(one) is not None), FACTOR_KEYS[0])
    factor = 1.0 if config.get(key) == 0 else config.get_float(key, 1.0)  # writers put 0 for "none"
    if kind == "none" or factor == 1.0:
        return RopeSpec(size, theta, max_positions=positions)
    if kind not in ("linear", "yarn"):
        raise ModelError(f"{config.where}: llama.rope.scaling.type {kind!r} is not supported (none, linear or yarn)")
    original = config.get_int("llama.rope.scaling.original_context_length", positions)
    stated = config.get_float("llama.rope.scaling.attn_factor", 1.0)
    # The file's factor multiplies what yarn derives from the scaling; linear ropes have neither.
    attention_factor = stated * (0.1 * math.log(factor) + 1.0) if kind == "yarn" and stated != 1.0 else 0.0
    return RopeSpec(
        size,
        theta,
        kind,
        max_positions=positions,
        original_positions=original,
        factor=factor,
        attention_factor=attention_factor,
    )


def _rope_with_factors(config: CheckpointConfig, size: int, theta: float, positions: int) -> RopeSpec:
    """Frequencies divided by stored factors, at every length: a longrope whose two lists are the same."""
    factors = config.get(ROPE_FACTORS)
    if factors is None:
        raise ModelError(
            f"{config.where}: the tensor {ROPE_FACTORS!r} scales the rope of this model, but its values are not in the "
            "configuration that the loader hands over; use a loader that publishes them, or the original "
            "Hugging Face folder"
        )
    values = tuple(float(value) for value in factors)
    if len(values) != size // 2:
        raise ModelError(
            f"{config.where}: {ROPE_FACTORS!r} has {len(values)} values, but the rope has {size // 2} pairs"
        )
    return RopeSpec(
        size,
        theta,
        "longrope",
        max_positions=positions,
        original_positions=positions,
        attention_factor=1.0,
        short_factor=values,
        long_factor=values,
    )
