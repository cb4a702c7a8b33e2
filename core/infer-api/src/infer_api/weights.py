"""The declarative map from a checkpoint's tensors to a model's logical weight slots.

One map per model and dialect. Loaders, quantization methods, adapters and tensor parallelism all read it;
no model has loading code. Names may hold placeholders such as `{i}`; a rule stands for every layer at once:

    WeightRule("layers.{i}.attn.qkv#q", "model.layers.{i}.self_attn.q_proj.weight")

A parameter that no rule fills, or a tensor that no rule takes or ignores, is an error naming it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Ignore", "InterleavedRows", "RowRange", "RowRule", "WeightMap", "WeightRule"]


@dataclass(frozen=True)
class RowRange:
    """Take `length` output rows from `start` of the stored tensor (a fused tensor that we keep apart)."""

    start: int
    length: int


@dataclass(frozen=True)
class InterleavedRows:
    """Undo the row order of checkpoints that store q and k for rotation of neighbouring channels.

    Within each of `num_heads` heads, stored row 2i holds channel i and row 2i + 1 channel i + half.
    """

    num_heads: int


RowRule = RowRange | InterleavedRows


@dataclass(frozen=True)
class WeightRule:
    """Slot ← stored tensor, with at most one change of its rows.

    `source` names the tensor that holds a plain weight and ends in ".weight"; a quantization method that
    stores several components replaces that ending. `slot` ends in "#part" for parts of a linear, and in
    ".bias" for a bias. `optional` slots may be absent when the model did not ask for them.
    """

    slot: str
    source: str
    rows: RowRule | None = None
    optional: bool = False


@dataclass(frozen=True)
class Ignore:
    """Tensors that match the glob `pattern` are not needed, and `why`."""

    pattern: str
    why: str


@dataclass(frozen=True)
class WeightMap:
    """All rules of one model for the dialect of the checkpoint at hand."""

    rules: tuple[WeightRule, ...]
    ignored: tuple[Ignore, ...] = ()
