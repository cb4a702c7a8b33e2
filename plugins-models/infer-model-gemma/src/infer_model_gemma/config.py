"""The numbers of a Gemma 3 text model, read from either dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from infer_api.errors import ModelError
from infer_api.rope import RopeSpec
from infer_api.specs import CheckpointConfig, NormStyle

__all__ = ["GemmaConfig"]

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
        num_layers, head_size = text.require_int("num_hidden_layers"), text.require_int("head_dim")
        return cls(
            num_layers=num_layers,
            width=text.require_int("hidden_size"),
            ffn_width=text.require_int("intermediate_size"),
            num_heads=text.require_int("num_attention_heads"),
            num_kv_heads=text.require_int("num_key_value_heads"),
            head_size=head_size,
            norm_eps=float(text.get("rms_norm_eps", 1e-6)),
            norm_style="rms_unit_offset",
            vocab_size=text.require_int("vocab_size"),
            max_positions=text.require_int("max_position_embeddings"),
            windows=_windows(text, _hf_layer_types(text, num_layers), "sliding_window"),
            global_rope=_hf_global_rope(text, head_size),
            local_rope=_hf_local_rope(text, head_size),
            attn_scale=float(text.get("query_pre_attn_scalar", 256)) ** -0.5,
            tied=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", True))),
            dtype=str(config.get("dtype", config.get("torch_dtype", text.get("torch_dtype", "float32")))),
            attn_softcap=text.get("attn_logit_softcapping"),
            final_softcap=text.get("final_logit_softcapping"),
            attn_bias=bool(text.get("attention_bias", False)),
            prefix=next((p for p in PREFIXES if f"{p}embed_tokens.weight" in config.tensors), PREFIXES[0]),
        )

    @classmethod
    def from_gguf(cls, config: CheckpointConfig) -> GemmaConfig:
        """From GGUF metadata. Raises ModelError naming file and key."""
        width, num_heads = (
            config.require_int("gemma3.embedding_length"),
            config.require_int("gemma3.attention.head_count"),
        )
        num_layers, head_size = (
            config.require_int("gemma3.block_count"),
            config.require_int("gemma3.attention.key_length"),
        )
        tokens = config.get("tokenizer.ggml.tokens")
        scale_size = width / num_heads if num_layers == LAYERS_OF_27B else head_size
        return cls(
            num_layers=num_layers,
            width=width,
            ffn_width=config.require_int("gemma3.feed_forward_length"),
            num_heads=num_heads,
            num_kv_heads=int(config.get("gemma3.attention.head_count_kv", num_heads)),
            head_size=head_size,
            norm_eps=float(config.require("gemma3.attention.layer_norm_rms_epsilon")),
            norm_style="rms",
            vocab_size=len(tokens) if tokens else config.require_int("gemma3.vocab_size"),
            max_positions=config.require_int("gemma3.context_length"),
            windows=_windows(config, _gguf_layer_types(config, num_layers), "gemma3.attention.sliding_window"),
            global_rope=_gguf_global_rope(config, head_size),
            local_rope=RopeSpec(
                head_size,
                float(config.get("gemma3.rope.freq_base_swa", LOCAL_THETA)),
                max_positions=config.require_int("gemma3.context_length"),
            ),
            attn_scale=float(config.get("gemma3.attention.scale", scale_size**-0.5)),
            tied="output.weight" not in config.tensors,
            dtype="float32",
            attn_softcap=config.get("gemma3.attn_logit_softcapping"),
            final_softcap=config.get("gemma3.final_logit_softcapping"),
        )


def _text_part(config: CheckpointConfig) -> CheckpointConfig:
    if config.architecture != MULTIMODAL:
        return config
    return replace(config, values={**MULTIMODAL_DEFAULTS, **config.require("text_config")})


def _refuse_unsupported(text: CheckpointConfig) -> None:
    activation = text.get("hidden_activation", "gelu_pytorch_tanh")
    if activation != "gelu_pytorch_tanh":
        raise ModelError(f"{text.where}: hidden_activation {activation!r} is not supported (only gelu_pytorch_tanh)")
    if text.get("use_bidirectional_attention", False):
        raise ModelError(f"{text.where}: use_bidirectional_attention is true; embedding models are not supported")


def _hf_layer_types(text: CheckpointConfig, num_layers: int) -> Sequence[str]:
    pattern = int(text.get("sliding_window_pattern", text.get("_sliding_window_pattern", PATTERN)))
    types: Sequence[str] = text.get("layer_types") or _alternate(num_layers, pattern)
    if len(types) != num_layers or not set(types) <= {SLIDING, FULL}:
        raise ModelError(
            f"{text.where}: layer_types must have {num_layers} entries of {SLIDING!r} or {FULL!r}, found {list(types)}"
        )
    return types


def _gguf_layer_types(config: CheckpointConfig, num_layers: int) -> Sequence[str]:
    stated = config.get("gemma3.attention.sliding_window_pattern", PATTERN)
    if isinstance(stated, int):
        return _alternate(num_layers, stated)
    if len(stated) != num_layers:
        raise ModelError(
            f"{config.where}: gemma3.attention.sliding_window_pattern has {len(stated)} entries for {num_layers} layers"
        )
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
    return RopeSpec.from_config(values, head_size=head_size, layer_type=FULL, where=text.where)


def _hf_local_rope(text: CheckpointConfig, head_size: int) -> RopeSpec:
    """Length extension is for the layers that see everything; the others keep their own base."""
    values: dict[str, Any] = {
        "max_position_embeddings": text.get("max_position_embeddings"),
        "rope_theta": text.get("rope_local_base_freq", LOCAL_THETA),
    }
    keyed = text.get("rope_parameters", {})
    if SLIDING in keyed:
        values["rope_parameters"] = {SLIDING: keyed[SLIDING]}
    return RopeSpec.from_config(values, head_size=head_size, layer_type=SLIDING, where=text.where)


def _gguf_global_rope(config: CheckpointConfig, head_size: int) -> RopeSpec:
    kind = str(config.get("gemma3.rope.scaling.type", "none"))
    factor = float(config.get("gemma3.rope.scaling.factor", 1.0))
    if kind not in ("none", "linear"):
        raise ModelError(f"{config.where}: gemma3.rope.scaling.type {kind!r} is not supported (none or linear)")
    is_scaled = kind == "linear" and factor != 1.0
    return RopeSpec(
        head_size,
        float(config.get("gemma3.rope.freq_base", GLOBAL_THETA)),
        "linear" if is_scaled else "default",
        max_positions=config.require_int("gemma3.context_length"),
        factor=factor if is_scaled else 1.0,
    )
