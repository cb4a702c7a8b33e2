from __future__ import annotations

import pytest
import torch

from infer_api.specs import AttentionSite, AttentionSpec
from infer_attn_torch.backend import TorchAttention
from infer_attn_torch.options import TorchAttentionOptions
from infer_testkit.paged import PagedRun


def make(**options: int) -> TorchAttention:
    return TorchAttention(TorchAttentionOptions(**options))


@pytest.mark.parametrize(
    ("site", "words"),
    [
        (AttentionSite(AttentionSpec(2, 2, 8, 1.0, sinks=True), "cpu", "float32", "float32", 16), "sinks"),
        (AttentionSite(AttentionSpec(2, 2, 8, 1.0, window=4, causal=False), "cpu", "float32", "float32", 16), "both"),
        (AttentionSite(AttentionSpec(2, 2, 8, 1.0), "cpu", "float32", "float8_e4m3fn", 16), "float8_e4m3fn cache"),
    ],
)
def test_what_is_not_offered_is_refused_with_a_reason(site: AttentionSite, words: str) -> None:
    refusal = make().check(site)
    assert refusal is not None
    assert words in refusal.text


def test_small_chunks_and_tiny_buckets_change_nothing() -> None:
    backend = make(query_chunk=16)
    run = PagedRun(backend, AttentionSpec(4, 2, 16, 0.25, window=40), torch.Generator().manual_seed(1))
    run.meta.max_keys = 50
    for counts in ({"a": 70, "b": 33, "c": 40}, {"a": 1, "b": 1, "c": 50}, {"a": 17, "b": 1, "c": 1}):
        outcome = run.step(counts)
        for name in counts:
            torch.testing.assert_close(outcome.got[name].double(), outcome.expected[name], rtol=1e-5, atol=1e-5)


def test_padding_tokens_are_left_alone() -> None:
    run = PagedRun(make(), AttentionSpec(2, 2, 8, 0.3), torch.Generator().manual_seed(1))
    run.step({"a": 5})
    inputs = run.draw_inputs({"a": 1, "padding": 1}, frozenset())
    batch = run.admit(type(inputs)(inputs.q[:1], inputs.k[:1], inputs.v[:1], [("a", 1)]))
    out = torch.full_like(inputs.q, 7.0)
    run.backend.plan(run.meta, batch)
    run.backend.attend(run.layer, inputs.q[:1], inputs.k[:1], inputs.v[:1], run.meta, out)
    assert (out[1] == 7.0).all()
    assert (out[0] != 7.0).all()
