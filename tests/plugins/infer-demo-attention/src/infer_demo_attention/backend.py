"""The backend: rope, KV write and attention of one layer, row by row.

Letters: T tokens of the step, Q queries of one row, S keys that they need, H query heads, G kv heads,
R query heads that share a kv head, K head width, N blocks of a row, L tokens of a block.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from infer_api.attention import AttentionLayer
from infer_api.specs import AttentionSite, AttentionSpec, KVGroup, KVLayout, KVLimits, KVSpec, Reason
from infer_api.steps import SeqBatch
from infer_demo_attention.options import DemoAttentionOptions
from infer_demo_attention.rope import rotate

__all__ = ["DemoAttention", "DemoMeta", "Row"]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
ACCUMULATORS = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class Row:
    """New tokens `start` to `end` of the step belong to one sequence; the first of them stands at `position`."""

    index: int
    start: int
    end: int
    position: int

    @property
    def num_tokens(self) -> int:
        """Tokens of the sequence after the step."""
        return self.position + self.end - self.start


@dataclass
class DemoMeta:
    """What lives with a KV group: the size of its blocks and the step at hand."""

    block_tokens: int
    batch: SeqBatch | None = None
    rows: tuple[Row, ...] = ()


class DemoAttention:
    """Paged attention in the order in which one would explain it. A block is stored head by head, [G, L, K]."""

    def __init__(self, options: DemoAttentionOptions) -> None:
        self._chunk = options.query_chunk
        self._accumulate = ACCUMULATORS[options.accumulate]

    def check(self, site: AttentionSite) -> Reason | None:
        """None when the backend serves `site`, else why it does not."""
        if site.dtype not in DTYPES:
            return Reason(f"activations of type {site.dtype} are not supported (only {', '.join(DTYPES)})")
        if not site.spec.causal:
            return Reason("only causal attention is supported")
        if site.spec.sinks:
            return Reason("attention sinks are not supported")
        if site.kv_dtype != site.dtype:
            return Reason(f"a {site.kv_dtype} cache beside {site.dtype} activations is not supported")
        return None

    def layout(self, spec: KVSpec, block_tokens: int, dtype: str) -> KVLayout:
        """A block of each tensor is [heads, block_tokens, width]."""
        shapes = {tensor.name: (tensor.heads, block_tokens, tensor.width) for tensor in spec.tensors}
        num_values = sum(tensor.heads * tensor.width for tensor in spec.tensors) * block_tokens
        return KVLayout(shapes=shapes, dtype=dtype, bytes_per_block=num_values * DTYPES[dtype].itemsize)

    def static_meta(self, group: KVGroup, limits: KVLimits, device: torch.device) -> DemoMeta:
        """No buffers are kept: every call allocates what it needs."""
        return DemoMeta(group.block_tokens)

    def plan(self, meta: DemoMeta, batch: SeqBatch) -> None:
        """Cut the step into rows. Positions come from the device, as the host's lengths may be upper bounds."""
        starts = batch.query_start_B1.tolist()
        positions = batch.positions_T.tolist()
        meta.batch = batch
        meta.rows = tuple(
            Row(index, start, end, positions[start])
            for index, (start, end) in enumerate(zip(starts[:-1], starts[1:], strict=True))
            if end > start
        )

    def attend(self, layer: AttentionLayer, q: Tensor, k: Tensor, v: Tensor, meta: DemoMeta, out: Tensor) -> Tensor:
        """Rotate q [T, H, K] and k, write k and v [T, G, K] into the cache, fill `out` [T, H, K] and return it."""
        batch = meta.batch
        assert batch is not None, "attend was called before plan"
        if layer.rope is not None:
            q, k = rotate(q, layer.rope, batch.positions_T), rotate(k, layer.rope, batch.positions_T)
        block_T = batch.slot_mapping_T // meta.block_tokens
        offset_T = batch.slot_mapping_T % meta.block_tokens
        layer.kv["k"][block_T, :, offset_T] = k
        layer.kv["v"][block_T, :, offset_T] = v
        for row in meta.rows:
            for start in range(row.start, row.end, self._chunk):
                part = Row(row.index, start, min(start + self._chunk, row.end), row.position + start - row.start)
                out[part.start : part.end] = self._attend_row(part, q[part.start : part.end], layer, meta)
        return out

    def _attend_row(self, row: Row, q_QHK: Tensor, layer: AttentionLayer, meta: DemoMeta) -> Tensor:
        """Context vectors [Q, H, K] of neighbouring queries of one sequence."""
        spec, dtype = layer.spec, self._accumulate
        first_key = 0 if spec.window is None else max(0, row.position - spec.window + 1)
        k_GSK = _read(layer.kv["k"], row, first_key, meta).to(dtype)
        v_GSK = _read(layer.kv["v"], row, first_key, meta).to(dtype)
        unseen_QS = _unseen(row, first_key, spec, q_QHK.device)
        context_QHK = torch.empty(q_QHK.shape, dtype=dtype, device=q_QHK.device)
        shared = spec.num_heads // spec.num_kv_heads
        for group in range(spec.num_kv_heads):
            heads = slice(group * shared, (group + 1) * shared)
            q_RQK = q_QHK[:, heads].transpose(0, 1).to(dtype)
            score_RQS = q_RQK @ k_GSK[group].T * spec.scale
            if spec.softcap is not None:
                score_RQS = spec.softcap * torch.tanh(score_RQS / spec.softcap)
            chance_RQS = score_RQS.masked_fill(unseen_QS, float("-inf")).softmax(dim=-1)
            context_QHK[:, heads] = (chance_RQS @ v_GSK[group]).transpose(0, 1)
        return context_QHK.to(q_QHK.dtype)


def _read(cache_NGLK: Tensor, row: Row, first_key: int, meta: DemoMeta) -> Tensor:
    """Keys or values [G, S, K] of the row's tokens from `first_key` on; nothing else is read, not even stale ends.

    blocks      |  skipped  | first block |  ...  | last block |
    tokens                     [first_key ........ num_tokens)
    """
    assert meta.batch is not None
    first_block, end_block = first_key // meta.block_tokens, -(-row.num_tokens // meta.block_tokens)
    block_ids_N = meta.batch.block_table_BN[row.index, first_block:end_block]
    tokens_GSK = cache_NGLK[block_ids_N].transpose(0, 1).flatten(1, 2)
    skipped = first_block * meta.block_tokens
    return tokens_GSK[:, first_key - skipped : row.num_tokens - skipped]


def _unseen(row: Row, first_key: int, spec: AttentionSpec, device: torch.device) -> Tensor:
    """[Q, S], true where a query may not look: later tokens, and those before its window."""
    query_Q1 = torch.arange(row.position, row.num_tokens, device=device)[:, None]
    key_S = torch.arange(first_key, row.num_tokens, device=device)
    unseen_QS = key_S > query_Q1
    if spec.window is not None:
        unseen_QS |= key_S <= query_Q1 - spec.window
    return unseen_QS
