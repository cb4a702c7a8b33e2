"""Which queries of a step are answered together. Pure host arithmetic, no tensors.

Queries of one row that share a mask form an `Item`. Items with the same number of queries and nearly the
same span of keys form a bucket, padded to its longest span:

    span   100 103 104 | 240 241 | 900          three buckets; the padding (·) costs less than another call
           ###·
           ###·
           ####
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from infer_api.steps import SeqBatch

__all__ = ["CALL_COST_TOKENS", "Item", "Run", "fresh_runs", "gather_items", "group_items"]

CALL_COST_TOKENS = 128
"""A further call costs about as much time as this many padded tokens (measured with 192 channels a token)."""


@dataclass(frozen=True)
class Item:
    """`num_queries` consecutive queries of `row`, the first at token `start` of the step; they see at most
    `span` keys between them."""

    row: int
    start: int
    num_queries: int
    span: int


@dataclass(frozen=True)
class Run:
    """`num_rows` neighbouring rows of `num_tokens` tokens each, from token `start` of the step on."""

    start: int
    num_rows: int
    num_tokens: int


def _starts(batch: SeqBatch) -> Iterator[tuple[int, int, int, int]]:
    start = 0
    for row, (num_new, num_all) in enumerate(zip(batch.query_lens, batch.seq_lens, strict=True)):
        yield row, start, num_new, num_all
        start += num_new


def _is_fresh(num_new: int, num_all: int, window: int | None) -> bool:
    """Whether the row needs nothing of the cache and no mask but the causal one."""
    return 1 < num_new == num_all and (window is None or num_all <= window)


def fresh_runs(batch: SeqBatch, window: int | None, *, causal: bool = True) -> list[Run]:
    """Rows that see only their own new tokens, equal neighbours joined. Not causal: every row."""
    runs: list[Run] = []
    for _, start, num_new, num_all in _starts(batch):
        if num_new == 0 or (causal and not _is_fresh(num_new, num_all, window)):
            continue
        last = runs[-1] if runs else None
        if last and last.num_tokens == num_new and last.start + last.num_rows * num_new == start:
            runs[-1] = Run(last.start, last.num_rows + 1, num_new)
        else:
            runs.append(Run(start, 1, num_new))
    return runs


def gather_items(batch: SeqBatch, window: int | None, query_chunk: int, *, with_fresh: bool = False) -> list[Item]:
    """Items of all rows that need the cache (`with_fresh`: of all rows), cut at `query_chunk` queries."""
    items = []
    for row, start, num_new, num_all in _starts(batch):
        if not with_fresh and _is_fresh(num_new, num_all, window):
            continue
        for first in range(0, num_new, query_chunk):
            count = min(query_chunk, num_new - first)
            end = num_all - num_new + first + count
            span = end if window is None else min(end, window - 1 + count)
            items.append(Item(row, start + first, count, span))
    return items


def group_items(items: Iterable[Item], max_keys: int) -> list[Sequence[Item]]:
    """Buckets of at most `max_keys` padded keys (a single longer item is a bucket of its own), in token order."""
    by_queries: dict[int, list[Item]] = defaultdict(list)
    for item in items:
        by_queries[item.num_queries].append(item)
    buckets: list[Sequence[Item]] = []
    for same in by_queries.values():
        buckets += _group_spans(sorted(same, key=lambda item: item.span), max_keys)
    return buckets


def _group_spans(by_span: Sequence[Item], max_keys: int) -> Iterator[Sequence[Item]]:
    bucket: list[Item] = []
    num_keys = 0
    for item in by_span:
        padded = item.span * len(bucket)
        if bucket and (padded - num_keys > CALL_COST_TOKENS or padded + item.span > max_keys):
            yield sorted(bucket, key=lambda item: item.start)
            bucket, num_keys = [], 0
        bucket.append(item)
        num_keys += item.span
    if bucket:
        yield sorted(bucket, key=lambda item: item.start)
