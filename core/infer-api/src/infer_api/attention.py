"""Kind `attention`: queries to context vectors, through one layer's part of the KV cache.

Called by the runner: `layout` once per KV group when the cache is sized; `static_meta` once per group;
`plan` once per group and step; `attend` once per layer and step. Rope and the KV write happen inside
`attend`, so that a backend may fuse them. Letters: T tokens, H query heads, G kv heads, K head width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from infer_api.specs import AttentionSite, AttentionSpec, KVGroup, KVLayout, KVLimits, KVSpec, Reason

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from infer_api.layers import Rotary
    from infer_api.steps import SeqBatch

__all__ = ["AttentionBackend", "AttentionLayer", "Meta"]

Meta = Any
"""A backend's own per-group state: buffers that live with the engine, and what `plan` made of the step."""


@dataclass
class AttentionLayer:
    """One attention layer as the backend sees it. `kv` holds the layer's cache tensors by KVTensor name,
    each [num_blocks, *layout shape], bound before the first step; empty for encoders without a cache."""

    name: str
    spec: AttentionSpec
    rope: Rotary | None
    kv: dict[str, Tensor]


class AttentionBackend(Protocol):
    """Built by the manifest's `implementation(options)`."""

    def __init__(self, options: Any) -> None: ...

    def check(self, site: AttentionSite) -> Reason | None:
        """None when the backend serves `site`, else why it does not."""
        ...

    def layout(self, spec: KVSpec, block_tokens: int, dtype: str) -> KVLayout:
        """How one block of one layer is stored, for cache dtype `dtype`."""
        ...

    def static_meta(self, group: KVGroup, limits: KVLimits, device: torch.device) -> Meta:
        """Buffers for steps within `limits`."""
        ...

    def plan(self, meta: Meta, batch: SeqBatch) -> None:
        """Take in one step; the host integers of `batch` may be read, its device tensors are kept by reference."""
        ...

    def attend(self, layer: AttentionLayer, q: Tensor, k: Tensor, v: Tensor, meta: Meta, out: Tensor) -> Tensor:
        """q [T, H, K], k and v [T, G, K] before rope → out [T, H, K]. Writes k and v of the step into the cache.

        Token t of a row sees the row's tokens at positions <= its own (within `spec.window` of it).
        """
        ...
