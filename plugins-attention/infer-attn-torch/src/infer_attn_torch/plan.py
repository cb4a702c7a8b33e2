"""What a step needs besides q, k and v, built once per step and shared by all layers that look alike.

Letters: T tokens of the step, B rows of a bucket, Q queries of each, S keys of each, N blocks of a row,
R rotated channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from infer_api.layers import Rotary
from infer_api.specs import AttentionSpec
from infer_api.steps import SeqBatch
from infer_attn_torch.buckets import Item, Run, fresh_runs, gather_items, group_items
from infer_attn_torch.cache import Scratch
from infer_attn_torch.rope import Angles

__all__ = ["Gather", "StepMeta", "Work"]


@dataclass(frozen=True)
class Gather:
    """One bucket: where its queries stand in the step, which cache entries they need, and who sees what.

    `tokens` selects B · Q tokens of the step. `entries_BS` are token entries of the cache (block · block_tokens
    + offset). Past its own length a row repeats an entry of its own: what is unused or stale is never read, so
    that a NaN there cannot leak.
    """

    tokens: slice | Tensor
    num_rows: int
    num_queries: int
    entries_BS: Tensor
    mask_B1QS: Tensor
    """To be added to the scores: 0 where a query sees a key, else minus infinity."""


@dataclass(frozen=True)
class Work:
    """All that layers with one window do in a step: runs without a cache, and buckets with one."""

    fresh: Sequence[Run]
    gathers: Sequence[Gather]


@dataclass
class StepMeta:
    """State of one KV group: scratch memory that lives with the engine, and what is known of the current step."""

    block_tokens: int
    max_keys: int
    query_chunk: int
    scratch: Scratch = field(default_factory=Scratch)
    _batch: SeqBatch | None = None
    _work: dict[tuple[int | None, bool, bool, torch.dtype], Work] = field(default_factory=dict)
    _angles: dict[int, Angles] = field(default_factory=dict)

    def start(self, batch: SeqBatch) -> None:
        """Forget the last step and take in `batch`."""
        self._batch = batch
        self._work = {}
        self._angles = {}

    @property
    def batch(self) -> SeqBatch:
        assert self._batch is not None, "attend was called before plan"
        return self._batch

    def angles(self, rope: Rotary) -> Angles:
        """Angles of the step's positions in `rope`."""
        found = self._angles.get(id(rope))
        if found is None:
            found = self._angles[id(rope)] = Angles.of(rope, self.batch.positions_T)
        return found

    def work(self, spec: AttentionSpec, dtype: torch.dtype) -> Work:
        """What a layer of `spec` has to do in this step, with masks of `dtype`."""
        capped = spec.softcap is not None
        key = (spec.window, spec.causal, capped, dtype)
        found = self._work.get(key)
        if found is None:
            found = self._work[key] = self._plan(spec.window, dtype, causal=spec.causal, capped=capped)
        return found

    def _plan(self, window: int | None, dtype: torch.dtype, *, causal: bool, capped: bool) -> Work:
        if not causal:
            return Work(fresh_runs(self.batch, window, causal=False), ())
        items = gather_items(self.batch, window, self.query_chunk, with_fresh=capped)
        gathers = [self._gather(bucket, window, dtype) for bucket in group_items(items, self.max_keys)]
        return Work(() if capped else fresh_runs(self.batch, window), gathers)

    def _gather(self, bucket: Sequence[Item], window: int | None, dtype: torch.dtype) -> Gather:
        batch = self.batch
        device = batch.positions_T.device
        num_queries, num_keys = bucket[0].num_queries, max(item.span for item in bucket)
        starts_B1 = torch.tensor([[item.start] for item in bucket], device=device)
        tokens_BQ = starts_B1 + torch.arange(num_queries, device=device)
        query_BQ1 = batch.positions_T[tokens_BQ][:, :, None]
        # Positions come from the device: the host's lengths may be upper bounds while drafts are in play.
        last_B1 = query_BQ1[:, -1]
        key_BS = torch.arange(num_keys, device=device).expand(len(bucket), -1)
        if window is not None:
            key_BS = key_BS + (query_BQ1[:, 0] - window + 1).clamp_(min=0)
        unseen_BQS = key_BS[:, None] > query_BQ1
        if window is not None:
            unseen_BQS |= key_BS[:, None] <= query_BQ1 - window
        mask_BQS = torch.zeros(unseen_BQS.shape, dtype=dtype, device=device).masked_fill_(unseen_BQS, float("-inf"))
        return Gather(
            tokens=_as_slice(bucket) or tokens_BQ.flatten(),
            num_rows=len(bucket),
            num_queries=num_queries,
            entries_BS=self._entries([item.row for item in bucket], torch.minimum(key_BS, last_B1)),
            mask_B1QS=mask_BQS[:, None],
        )

    def _entries(self, rows: list[int], key_BS: Tensor) -> Tensor:
        table_BN = self.batch.block_table_BN[torch.tensor(rows, device=key_BS.device)]
        block_BS = table_BN.gather(1, key_BS // self.block_tokens)
        return block_BS * self.block_tokens + key_BS % self.block_tokens


def _as_slice(bucket: Sequence[Item]) -> slice | None:
    """The bucket's tokens as one stretch of the step, if they are one."""
    first, count = bucket[0].start, bucket[0].num_queries
    if any(item.start != first + index * count for index, item in enumerate(bucket)):
        return None
    return slice(first, first + len(bucket) * count)
