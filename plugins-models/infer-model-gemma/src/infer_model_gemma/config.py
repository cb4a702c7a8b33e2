"""The numbers of a Gemma 3 text model, read from either dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from infer_api.errors import ModelError
from infer_api.rope import RopeSpec
from infer_api.specs import MAX_LAYERS, MAX_WIDTH, CheckpointConfig, NormStyle

__all__ = ["GemmaConfig"]

MAX_HEAD = 4096
"""Widest head: tables of angles grow with it and with the context."""
SLIDING, FULL = "sliding_attention", "full_attention"
PATTERN = 6
"""Every sixth layer sees everything, unless the file says otherwise."""
GLOBAL_THETA, LOCAL_THETA = 1_000_000.0, 10_000.0

MULTIMODAL = "Gemma3ForConditionalGeneration"
MULTIMODAL_DEFAULTS: Mapping[str, Any] = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 262_208,
    "max_position_embeddings": 131_072,
    "sliding_window": 4096,
}
"""What the text part of a multimodal config.json leaves out where it equals the first model of the family."""
PREFIXES = ("model.", "language_model.model.", "model.language_model.")
"""Where the text part's tensors have been saved over time."""

LAYERS_OF_27B = 62
"""GGUF does not state the attention scale; all sizes use the head width but this one, which uses width / heads."""


@dataclass(frozen=True)
class GemmaConfig:
    """What `model.py` builds from. Sizes are in values; `windows` has one entry a layer, None for full attention.

    `norm_style` is how the checkpoint stores norm weights. `prefix` leads the tensor names of the `hf` dialect.
    """

    num_layers: int
    width: int
    ffn_width: int
    num_heads: int
    num_kv_heads: int
    head_size: int
    norm_eps: float
    norm_style: NormStyle
    vocab_size: int
    max_positions: int
    windows: tuple[int | None, ...]
    global_rope: RopeSpec
    local_rope: RopeSpec
    attn_scale: float
    tied: bool
    dtype: str
    attn_softcap: float | None = None
    final_softcap: float | None = None
    attn_bias: bool = False
    prefix: str = "model."

    @classmethod
    def read(cls, config: CheckpointConfig) -> GemmaConfig:
        """From the dialect of `config`. Raises ModelError naming file and key."""
        return cls.from_gguf(config) if config.dialect == "gguf" else cls.from_hf(config)

    @classmethod
    def from_hf(cls, config: CheckpointConfig) -> GemmaConfig:
        """From a config.json, or the text part of a multimodal one. Raises ModelError naming file and key."""
        text = _text_part(config)
        _refuse_unsupported(text)
        num_layers = text.require_int("num_hidden_layers", MAX_LAYERS)
        head_size = text.require_int("head_dim", MAX_HEAD)
        return cls(
            num_layers=num_layers,
            width=text.require_int("hidden_size", MAX_WIDTH),
            ffn_width=text.require_int("intermediate_size", MAX_WIDTH),
            num_heads=text.require_int("num_attention_heads", MAX_WIDTH),
            num_kv_heads=text.require_int("num_key_value_heads", MAX_WIDTH),
            head_size=head_size,
            norm_eps=text.get_float("rms_norm_eps", 1e-6),
            norm_style="rms_unit_offset",
            vocab_size=text.require_int("vocab_size"),
            max_positions=text.require_int("max_position_embeddings"),
            windows=_windows(text, _hf_layer_types(text, num_layers), "sliding_window"),
            global_rope=_hf_global_rope(text, head_size),
            local_rope=_hf_local_rope(text, head_size),
            attn_scale=text.get_float("query_pre_attn_scalar", 256.0) ** -0.5,
            tied=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", True))),
            dtype=str(config.get("dtype", config.get("torch_dtype", text.get("torch_dtype", "float32")))),
            attn_softcap=text.get_float("attn_logit_softcapping", None),
            final_softcap=text.get_float("final_logit_softcapping", None),
            attn_bias=bool(text.get("attention_bias", False)),
            prefix=next((p for p in PREFIXES if f"{p}embed_tokens.weight" in config.tensors), PREFIXES[0]),
        )

    @classmethod
    def from_gguf(cls, config: CheckpointConfig) -> GemmaConfig:
        """From GGUF metadata. Raises ModelError naming file and key."""
        width = config.require_int("gemma3.embedding_length", MAX_WIDTH)
        num_heads = config.require_int("gemma3.attention.head_count", MAX_WIDTH)
        num_layers = config.require_int("gemma3.block_count", MAX_LAYERS)
        head_size = config.require_int("gemma3.attention.key_length", MAX_HEAD)
        tokens = config.get("tokenizer.ggml.tokens")
        scale_size = width / num_heads if num_layers == LAYERS_OF_27B else head_size
        return cls(
            num_layers=num_layers,
            width=width,
            ffn_width=config.require_int("gemma3.feed_forward_length", MAX_WIDTH),
            num_heads=num_heads,
            num_kv_heads=config.get_int("gemma3.attention.head_count_kv", num_heads, MAX_WIDTH),
            head_size=head_size,
            norm_eps=config.require_float("gemma3.attention.layer_norm_rms_epsilon"),
            norm_style="rms",
            vocab_size=len(tokens)
            if isinstance(tokens, Sequence) and tokens
            else config.require_int("gemma3.vocab_size"),
            max_positions=config.require_int("gemma3.context_length"),
            windows=_windows(config, _gguf_layer_types(config, num_layers), "gemma3.attention.sliding_window"),
            global_rope=_gguf_global_rope(config, head_size),
            local_rope=RopeSpec(
                head_size,
                config.get_float("gemma3.rope.freq_base_swa", LOCAL_THETA),
                max_positions=config.require_int("gemma3.context_length"),
            ),
            attn_scale=config.get_float("gemma3.attention.scale", scale_size**-0.5),
            tied="output.weight" not in config.tensors,
            dtype="float32",
            attn_softcap=config.get_float("gemma3.attn_logit_softcapping", None),
            final_softcap=config.get_float("gemma3.final_logit_softcapping", None),
        )


def _text_part(config: CheckpointConfig) -> CheckpointConfig:
    if config.architecture != MULTIMODAL:
        return config
    text = config.require("text_config")
    if not isinstance(text, Mapping):
        raise ModelError(f"{config.where}: the key 'text_config' must be an object, found {text!r:.60}")
    return replace(config, values={**MULTIMODAL_DEFAULTS, **text})


def _refuse_unsupported(text: CheckpointConfig) -> None:
    activation = text.get("hidden_activation", "gelu_pytorch_tanh")
    if activation != "gelu_pytorch_tanh":
        raise ModelError(f"{text.where}: hidden_activation {activation!r} is not supported (only gelu_pytorch_tanh)")
    if text.get("use_bidirectional_attention", False):
        raise ModelError(f"{text.where}: use_bidirectional_attention is true; embedding models are not supported")


def _hf_layer_types(text: CheckpointConfig, num_layers: int) -> Sequence[str]:
    pattern = text.get_int("sliding_window_pattern", text.get_int("_sliding_window_pattern", PATTERN))
    types: Any = text.get("layer_types") or _alternate(num_layers, pattern)
    is_list = isinstance(types, list | tuple) and len(types) == num_layers
    if not is_list or any(kind not in (SLIDING, FULL) for kind in types):
        raise ModelError(
            f"{text.where}: layer_types must have {num_layers} entries of {SLIDING!r} or {FULL!r}, found {types!r:.200}"
        )
    return list(types)


def _gguf_layer_types(config: CheckpointConfig, num_layers: int) -> Sequence[str]:
    key = "gemma3.attention.sliding_window_pattern"
    stated = config.get(key)
    if not isinstance(stated, list | tuple):
        return _alternate(num_layers, config.get_int(key, PATTERN))
    if len(stated) != num_layers:
        raise ModelError(f"{config.where}: {key} has {len(stated)} entries for {num_layers} layers")
    return [SLIDING if is_sliding else FULL for is_sliding in stated]


def _alternate(num_layers: int, pattern: int) -> Sequence[str]:
    return [SLIDING if (index + 1) % pattern else FULL for index in range(num_layers)]


def _windows(config: CheckpointConfig, types: Sequence[str], key: str) -> tuple[int | None, ...]:
    if SLIDING not in types:
        return (None,) * len(types)
    window = config.require_int(key)
    return tuple(window if kind == SLIDING else None for kind in types)


def _hf_global_rope(text: CheckpointConfig, head_size: int) -> RopeSpec:
    values = {"rope_theta": GLOBAL_THETA, **text.values}
    return _hf_rope(values, head_size, FULL, text.where)


def _hf_local_rope(text: CheckpointConfig, head_size: int) -> RopeSpec:
    """Length extension is for the layers that see everything; the others keep their own base."""
    values: dict[str, Any] = {
        "max_position_embeddings": text.get("max_position_embeddings"),
        "rope_theta": text.get("rope_local_base_freq", LOCAL_THETA),
    }
    keyed = text.get("rope_parameters", {})
    if SLIDING in keyed:
        values["rope_parameters"] = {SLIDING: keyed[SLIDING]}
    return _hf_rope(values, head_size, SLIDING, text.where)


def _hf_rope(values: Mapping[str, Any], head_size: int, layer_type: str, where: str) -> RopeSpec:
    try:
        return RopeSpec.from_config(values, head_size=head_size, layer_type=layer_type, where=where)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{where}: a value of the rope (rope_theta, rope_scaling, …) is wrong: {error}") from error


def _gguf_global_rope(config: CheckpointConfig, head_size: int) -> RopeSpec:
    kind = str(config.get("gemma3.rope.scaling.type", "none"))
    key = "gemma3.rope.scaling.factor"
    factor = 1.0 if config.get(key) == 0 else config.get_float(key, 1.0)  # writers put 0 for "none"
    if kind not in ("none", "linear"):
        raise ModelError(f"{config.where}: gemma3.rope.scaling.type {kind!r} is not supported (none or linear)")
    is_scaled = kind == "linear" and factor != 1.0
    return RopeSpec(
        head_size,
        config.get_float("gemma3.rope.freq_base", GLOBAL_THETA),
        "linear" if is_scaled else "default",
        max_positions=config.require_int("gemma3.context_length"),
        factor=factor if is_scaled else 1.0,
    )
