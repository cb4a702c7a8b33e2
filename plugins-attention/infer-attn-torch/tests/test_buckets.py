from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from infer_api.steps import SeqBatch
from infer_attn_torch.buckets import CALL_COST_TOKENS, Item, Run, fresh_runs, gather_items, group_items


def batch(*rows: tuple[int, int]) -> SeqBatch:
    """Rows as (new tokens, length after the step); the tensors are of no interest here."""
    empty = torch.empty(0, dtype=torch.int64)
    query_lens, seq_lens = tuple(new for new, _ in rows), tuple(length for _, length in rows)
    return SeqBatch(empty, empty, empty, empty, empty, query_lens, seq_lens, sum(new == 1 for new in query_lens))


def test_equal_neighbouring_prompts_form_one_run() -> None:
    assert fresh_runs(batch((1, 9), (5, 5), (5, 5), (7, 7), (5, 5)), None) == [
        Run(1, 2, 5),
        Run(11, 1, 7),
        Run(18, 1, 5),
    ]


def test_a_prompt_longer_than_the_window_is_no_fresh_run() -> None:
    assert fresh_runs(batch((5, 5), (9, 9)), 8) == [Run(0, 1, 5)]
    assert gather_items(batch((5, 5), (9, 9)), 8, 512) == [Item(1, 5, 9, 9)]


def test_equal_rows_apart_are_not_joined() -> None:
    assert fresh_runs(batch((5, 5), (5, 30), (5, 5)), None) == [Run(0, 1, 5), Run(10, 1, 5)]


def test_an_encoder_answers_every_row_as_fresh() -> None:
    assert fresh_runs(batch((1, 1), (1, 1), (3, 3)), None, causal=False) == [Run(0, 2, 1), Run(2, 1, 3)]


def test_a_window_bounds_the_span_of_a_decode() -> None:
    assert gather_items(batch((1, 100), (1, 3)), 16, 512) == [Item(0, 0, 1, 16), Item(1, 1, 1, 3)]


def test_long_chunks_are_cut() -> None:
    assert gather_items(batch((5, 12)), None, 2) == [Item(0, 0, 2, 9), Item(0, 2, 2, 11), Item(0, 4, 1, 12)]


def test_rows_of_similar_length_share_a_bucket() -> None:
    items = gather_items(batch((1, 100), (1, 900), (1, 104), (1, 103)), None, 512)
    spans = [[item.span for item in bucket] for bucket in group_items(items, 10**6)]
    assert spans == [[100, 104, 103], [900]]


def test_rows_with_different_numbers_of_queries_do_not_share_a_bucket() -> None:
    items = gather_items(batch((1, 100), (2, 100), (1, 100)), None, 512)
    assert [[item.row for item in bucket] for bucket in group_items(items, 10**6)] == [[0, 2], [1]]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3000)), min_size=1, max_size=40), st.integers(1, 20_000))
def test_every_query_is_in_one_bucket_and_padding_is_bounded(rows: list[tuple[int, int]], max_keys: int) -> None:
    items = gather_items(batch(*((new, new + before) for new, before in rows)), None, 512, with_fresh=True)
    buckets = group_items(items, max_keys)
    assert sorted(item.row for bucket in buckets for item in bucket) == list(range(len(rows)))
    for bucket in buckets:
        longest = max(item.span for item in bucket)
        assert len({item.num_queries for item in bucket}) == 1
        assert len(bucket) == 1 or len(bucket) * longest <= max_keys
        assert sum(longest - item.span for item in bucket) <= CALL_COST_TOKENS
        assert [item.start for item in bucket] == sorted(item.start for item in bucket)
