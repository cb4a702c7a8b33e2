"""A paged attention backend that answers one row after the other, for tests of what stands above it.

Letters: T tokens of the step, S tokens of one row, H query heads, G kv heads, K head width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from infer_api.attention import AttentionLayer
from infer_api.specs import AttentionSite, KVGroup, KVLayout, KVLimits, KVSpec, Reason
from infer_api.steps import SeqBatch
from infer_testkit.reference import attend, rotate

__all__ = ["PlainAttention", "PlainMeta"]


class PlainMeta:
    """The step at hand, and the tokens of a block."""

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self.batch: SeqBatch | None = None


class PlainAttention:
    """Slow and plain: gathers each row's keys and values, and computes in double precision."""

    def __init__(self, options: Any = None) -> None:
        self.options = options

    def check(self, site: AttentionSite) -> Reason | None:
        """Serves what the reference computes, in float32."""
        if site.dtype != "float32" or site.kv_dtype != "float32":
            return Reason(f"only float32 is supported, not {site.dtype} with a {site.kv_dtype} cache")
        return Reason("attention sinks are not supported") if site.spec.sinks else None

    def layout(self, spec: KVSpec, block_tokens: int, dtype: str) -> KVLayout:
        """[block_tokens, heads, width] for each tensor."""
        shapes = {tensor.name: (block_tokens, tensor.heads, tensor.width) for tensor in spec.tensors}
        num_values = sum(torch.Size(shape).numel() for shape in shapes.values())
        return KVLayout(shapes, dtype, num_values * getattr(torch, dtype).itemsize)

    def static_meta(self, group: KVGroup, limits: KVLimits, device: torch.device) -> PlainMeta:
        return PlainMeta(group.block_tokens)

    def plan(self, meta: PlainMeta, batch: SeqBatch) -> None:
        meta.batch = batch

    def attend(self, layer: AttentionLayer, q: Tensor, k: Tensor, v: Tensor, meta: PlainMeta, out: Tensor) -> Tensor:
        """As the contract says; q [T, H, K], k and v [T, G, K]."""
        batch = meta.batch
        assert batch is not None, "attend was called before plan"
        q_THK = rotate(q, layer.rope, batch.positions_T)
        k_TGK = rotate(k, layer.rope, batch.positions_T).to(k.dtype)
        block, offset = batch.slot_mapping_T // meta.block_tokens, batch.slot_mapping_T % meta.block_tokens
        if layer.kv:
            layer.kv["k"][block, offset], layer.kv["v"][block, offset] = k_TGK, v
        start = 0
        for row, count in enumerate(batch.query_lens):
            stretch = slice(start, start + count)
            start += count
            k_SGK, v_SGK = k_TGK[stretch], v[stretch]
            if layer.kv:
                # Blocks before the window may have been given back, with anything in them.
                first = 0 if layer.spec.window is None else max(0, batch.seq_lens[row] - count - layer.spec.window + 1)
                k_SGK, v_SGK = (self._row(layer.kv[name], batch, row, first, meta.block_tokens) for name in ("k", "v"))
            out[stretch] = attend(q_THK[stretch], k_SGK.double(), v_SGK.double(), layer.spec).to(out.dtype)
        return out

    def _row(self, cache: Tensor, batch: SeqBatch, row: int, first: int, block_tokens: int) -> Tensor:
        position_S = torch.arange(first, batch.seq_lens[row])
        return cache[batch.block_table_BN[row][position_S // block_tokens], position_S % block_tokens]
