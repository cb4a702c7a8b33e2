"""Rotary position embedding, described as data (RoFormer, arXiv:2104.09864, and its length extensions)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infer_api.errors import ModelError

__all__ = ["ROPE_TYPES", "RopeSpec"]

_NEEDED: dict[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor",),
    "longrope": ("short_factor", "long_factor"),
}
ROPE_TYPES: tuple[str, ...] = tuple(_NEEDED)
"""Names of the scaling types that `RopeSpec` knows."""


@dataclass(frozen=True)
class RopeSpec:
    """Which angle each pair of a head's channels is turned by at each position.

    `rotary_size` channels of a head (the first ones) are turned; `interleaved` pairs channel 2i with
    2i+1, otherwise i with i + rotary_size/2. `original_positions` is the length the model was first
    trained for. `attention_factor` 0.0 means: derive it from the type.

    Types whose angles depend on the length of the sequence (dynamic, longrope) are defined here for the
    token at position p as in a sequence of p + 1 tokens, so that chunking and batching change nothing.
    """

    rotary_size: int
    theta: float = 10000.0
    type: str = "default"
    interleaved: bool = False
    max_positions: int = 0
    original_positions: int = 0
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float = 0.0
    mscale: float = 0.0
    mscale_all_dim: float = 0.0
    short_factor: tuple[float, ...] = ()
    long_factor: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.rotary_size <= 0 or self.rotary_size % 2:
            raise ModelError(f"rotary size {self.rotary_size} must be positive and even")
        if self.type not in ROPE_TYPES:
            raise ModelError(f"rope type {self.type!r} is not known (known: {', '.join(ROPE_TYPES)})")
        if self.type == "longrope" and {len(self.short_factor), len(self.long_factor)} != {self.rotary_size // 2}:
            raise ModelError(
                f"rope type longrope needs short_factor and long_factor of {self.rotary_size // 2} entries, "
                f"found {len(self.short_factor)} and {len(self.long_factor)}"
            )

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], *, head_size: int, layer_type: str | None = None, where: str = "config.json"
    ) -> RopeSpec:
        """Read both spellings of a Hugging Face config: `rope_theta` + `rope_scaling`, or `rope_parameters`.

        `layer_type` picks one entry where `rope_parameters` is keyed by layer type. `partial_rotary_factor`
        and `rotary_dim` are honoured; `type` is accepted for `rope_type`. Raises ModelError for an unknown
        type or a missing key, naming `where` and the key.
        """
        scaling = _scaling(config, layer_type, where)
        kind = str(scaling.get("rope_type") or scaling.get("type") or "default")
        if kind not in ROPE_TYPES:
            raise ModelError(f"{where}: rope type {kind!r} is not known (known: {', '.join(ROPE_TYPES)})")
        positions = int(config.get("max_position_embeddings") or 0)
        original = int(
            scaling.get("original_max_position_embeddings")
            or config.get("original_max_position_embeddings")
            or positions
        )
        if kind == "longrope" and not scaling.get("factor"):
            scaling["factor"] = positions / original if original else 1.0
        for key in _NEEDED[kind]:
            if scaling.get(key) is None:
                raise ModelError(f"{where}: rope type {kind!r} needs the key rope_scaling.{key}, which is missing")
        if "factor" in _NEEDED[kind] and not float(scaling["factor"]) > 0:
            raise ModelError(f"{where}: rope_scaling.factor must be above 0, found {scaling['factor']!r}")
        partial = float(scaling.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0)
        size = int(config.get("rotary_dim") or 0) or int(head_size * partial)
        return cls(
            rotary_size=size,
            theta=float(scaling.get("rope_theta") or config.get("rope_theta") or 10000.0),
            type=kind,
            max_positions=positions,
            original_positions=original,
            factor=float(scaling.get("factor") or 1.0),
            low_freq_factor=float(scaling.get("low_freq_factor") or 1.0),
            high_freq_factor=float(scaling.get("high_freq_factor") or 4.0),
            beta_fast=float(scaling.get("beta_fast") or 32.0),
            beta_slow=float(scaling.get("beta_slow") or 1.0),
            truncate=bool(scaling.get("truncate", True)),
            attention_factor=float(scaling.get("attention_factor") or 0.0),
            mscale=float(scaling.get("mscale") or 0.0),
            mscale_all_dim=float(scaling.get("mscale_all_dim") or 0.0),
            short_factor=tuple(float(x) for x in scaling.get("short_factor") or ()),
            long_factor=tuple(float(x) for x in scaling.get("long_factor") or ()),
        )


def _scaling(config: Mapping[str, Any], layer_type: str | None, where: str) -> dict[str, Any]:
    """`rope_scaling` and `rope_parameters` as one mapping, that of `layer_type` where they are keyed by it."""
    for key in ("rope_scaling", "rope_parameters"):
        if not isinstance(config.get(key) or {}, Mapping):
            raise ModelError(f"{where}: {key} must be an object, found {config[key]!r}")
    found: Mapping[str, Any] = config.get("rope_parameters") or {}
    if found and all(isinstance(value, Mapping) for value in found.values()):
        if layer_type is None or layer_type not in found:
            raise ModelError(
                f"{where}: rope_parameters has entries for {', '.join(found)}, and none for {layer_type!r}"
            )
        found = found[layer_type]
    return {**(config.get("rope_scaling") or {}), **found}
