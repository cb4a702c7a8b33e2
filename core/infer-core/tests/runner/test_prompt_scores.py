from __future__ import annotations

import pytest
import torch
from torch import Tensor

from infer.runner import prompt_scores
from infer.runner.prompt_scores import find_spans, score
from infer.runner.sampling import RowSampling
from infer_api.requests import SamplingParams
from infer_api.steps import PlannedRow

WIDTH, VOCAB = 24, 20


class Head:
    """A model whose output layer is one matrix; remembers how many rows it was asked for."""

    def __init__(self) -> None:
        self.head_DV = torch.randn(8, WIDTH)
        self.head_DV[:, VOCAB:] = 100.0
        self.sizes: list[int] = []

    def logits(self, h_RD: Tensor) -> Tensor:
        self.sizes.append(len(h_RD))
        return h_RD @ self.head_DV


def row(num_prompt: int, prompt_logprobs: int | None) -> RowSampling:
    return RowSampling(SamplingParams(prompt_logprobs=prompt_logprobs), VOCAB, num_prompt)


@pytest.mark.parametrize("piece", [3, 256])
def test_chunks_are_scored_as_a_whole_prompt_would_be(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_scores, "_PIECE", piece)
    model, num_prompt = Head(), 11
    tokens_SL = torch.randint(0, VOCAB, (3, 16))
    h_TD = torch.randn(num_prompt, 8)
    rows = {2: row(num_prompt, 4), 0: row(5, None)}
    want = torch.log_softmax((h_TD @ model.head_DV)[:, :VOCAB], dim=-1)
    found = []
    for begin, end in ((0, 4), (4, 5), (5, 11)):
        neighbour = [PlannedRow(0, 1, 9, True)]  # decodes, and stands before it in the step
        spans = find_spans([*neighbour, PlannedRow(2, end - begin, end, end == num_prompt)], rows, tokens_SL)
        scored = score(spans[0], torch.cat([torch.randn(1, 8), h_TD[begin:end]]), model)  # type: ignore[arg-type]
        assert (len(spans), scored.slot, scored.first, scored.error) == (1, 2, begin + 1, None)
        found.extend(scored.entries)
    assert len(found) == num_prompt - 1
    for at, entry in enumerate(found):
        target = int(tokens_SL[2, at + 1])
        assert entry.token_id == target
        assert entry.logprob == pytest.approx(float(want[at, target]), abs=1e-4)
        assert entry.top_ids == want[at].topk(4).indices.tolist()
        assert entry.top_logprobs == pytest.approx(want[at].topk(4).values.tolist(), abs=1e-4)
    assert max(model.sizes) <= piece


def test_steps_behind_the_prompt_have_nothing_to_score() -> None:
    rows = {0: row(4, 0)}
    tokens_SL = torch.zeros(1, 9, dtype=torch.int64)
    assert find_spans([PlannedRow(0, 1, 4, True)], rows, tokens_SL) == ()
    assert find_spans([PlannedRow(0, 1, 5, True)], rows, tokens_SL) == ()
    after_preemption = find_spans([PlannedRow(0, 7, 7, True)], rows, tokens_SL)
    assert [(span.first, len(span.targets_P)) for span in after_preemption] == [(1, 3)]


def test_no_alternatives_are_listed_when_none_are_asked_for() -> None:
    span = find_spans([PlannedRow(0, 3, 3, True)], {0: row(3, 0)}, torch.zeros(1, 9, dtype=torch.int64))[0]
    entries = score(span, torch.randn(3, 8), Head()).entries  # type: ignore[arg-type]
    assert [(entry.top_ids, entry.top_logprobs) for entry in entries] == [([], []), ([], [])]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_scores_that_are_not_finite_fail_the_row(value: float) -> None:
    h_TD = torch.randn(5, 8)
    h_TD[2, 3] = value
    span = find_spans([PlannedRow(0, 5, 5, True)], {0: row(5, 2)}, torch.zeros(1, 9, dtype=torch.int64))[0]
    scored = score(span, h_TD, Head())  # type: ignore[arg-type]
    assert scored.entries == []
    assert scored.error is not None
    assert (scored.error.code, scored.error.status) == ("generation_failed", 500)
