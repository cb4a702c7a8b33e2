"""What a model is built from. Core hands a `LayerFactory` to `ModelFamily.build`; parallelism, quantization,
adapters and attention backends arrive through it, so that a model file speaks of none of them.

Letters: T tokens, R rows, D width, H query heads, G kv heads, K head width, V vocabulary, P positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from infer_api.ops import OpImpl
from infer_api.rope import RopeSpec
from infer_api.specs import AttentionSpec, Epilogue, NormStyle, Part, Shard

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Attention", "Embedding", "LayerFactory", "Linear", "Norm", "Rotary"]


class Linear(Protocol):
    """x [T, d_in] → [T, d_out], parts side by side; with a gated epilogue → [T, d_out / 2]."""

    def __call__(self, x: Tensor) -> Tensor: ...

    def split(self, y: Tensor) -> tuple[Tensor, ...]:
        """Views of `y` [T, d_out], one per part."""
        ...


class Embedding(Protocol):
    """ids [T] int64 → [T, D]. Its output head, tied or its own, belongs to the same object."""

    def __call__(self, ids: Tensor) -> Tensor: ...

    def logits(self, h: Tensor) -> Tensor:
        """h [R, D] → scores [R, V]."""
        ...


class Norm(Protocol):
    """Normalises the last axis. With `residual`, first adds it to `x` and returns (normalised, sum)."""

    def __call__(self, x: Tensor) -> Tensor: ...

    def add(self, x: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        """(norm(x + residual), x + residual); without a residual (norm(x), x). May overwrite both inputs."""
        ...


class Rotary(Protocol):
    """Angles of one RopeSpec, float32 tables up to the engine's longest sequence, with scaling factors applied."""

    @property
    def spec(self) -> RopeSpec: ...

    @property
    def cos_PR(self) -> Tensor:
        """[P, rotary_size / 2]."""
        ...

    @property
    def sin_PR(self) -> Tensor:
        """[P, rotary_size / 2]."""
        ...


class Attention(Protocol):
    """q [T, H·K], k and v [T, G·K] before rope → [T, H·K]. Reads the step from the factory's `step`."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor: ...


class LayerFactory(Protocol):
    """Names are logical weight slots, unique in the model: "layers.3.attn.qkv", "layers.3.mlp_norm", "embed".

    `step` is the slot that the runner fills before each forward; it is the forward context, so nothing is
    threaded through signatures and two models can live in one process. Layers are `torch.nn.Module`s, to be
    kept as attributes of the model.
    """

    step: Any

    def linear(
        self,
        name: str,
        d_in: int,
        parts: int | Sequence[Part],
        *,
        shard: Shard = "none",
        bias: bool = False,
        epilogue: Epilogue = "none",
    ) -> Linear:
        """A linear layer. Slots: `name#part` and `name#part.bias` (an int for `parts`: `name`, `name.bias`)."""
        ...

    def embedding(
        self, name: str, vocab_size: int, width: int, *, head: str | None = None, tied: bool = False
    ) -> Embedding:
        """Token embedding at slot `name`, with the output head at slot `head`; `tied`: the head is the table itself."""
        ...

    def norm(self, name: str, width: int, eps: float, style: NormStyle = "rms") -> Norm: ...

    def rotary(self, spec: RopeSpec) -> Rotary:
        """The tables of `spec`; equal specs share them."""
        ...

    def attention(self, name: str, spec: AttentionSpec, rope: Rotary | None) -> Attention: ...

    def op(self, name: str, **static: Any) -> OpImpl:
        """The best implementation of op `name` for this device, bound once."""
        ...
