"""Log-probabilities of prompt tokens, from the hidden states of a step.

Letters: T tokens of the step, D width, P positions scored, V vocabulary, S slots, L longest sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from infer.runner.constraints import NOT_FINITE
from infer.runner.sampling import RowSampling
from infer_api.models import Model
from infer_api.requests import TokenLogprobs
from infer_api.steps import PlannedRow, PromptScores

__all__ = ["PromptSpan", "find_spans", "score"]

_PIECE = 256
"""Positions that are scored at once: each takes V floats, several times."""


@dataclass(frozen=True)
class PromptSpan:
    """Prompt tokens to score in a step.

    position        a      a + 1   …   b - 1
    place in T    start    start + 1                 the scores there are of the token one further on
    targets_P     a + 1    a + 2   …   b             token ids, as far as they belong to the prompt
    """

    slot: int
    first: int
    """Position of the first target, a + 1."""
    start: int
    targets_P: Tensor
    num_top: int
    vocab_size: int


def find_spans(
    planned: Sequence[PlannedRow], rows: Mapping[int, RowSampling], tokens_SL: Tensor
) -> tuple[PromptSpan, ...]:
    """The spans of a step, before it moves anything in the request table."""
    spans, start = [], 0
    for each in planned:
        row, first = rows[each.slot], each.length - each.num_tokens + 1
        end = min(each.length + 1, row.num_prompt)
        if row.params.prompt_logprobs is not None and first < end:
            targets_P = tokens_SL[each.slot, first:end]
            spans.append(PromptSpan(each.slot, first, start, targets_P, row.params.prompt_logprobs, row.vocab_size))
        start += each.num_tokens
    return tuple(spans)


def score(span: PromptSpan, h_TD: Tensor, model: Model) -> PromptScores:
    """Of what the model said: log-softmax within the vocabulary."""
    entries: list[TokenLogprobs] = []
    for at in range(0, len(span.targets_P), _PIECE):
        targets_P = span.targets_P[at : at + _PIECE]
        start = span.start + at
        logits_PV = model.logits(h_TD[start : start + len(targets_P)]).float()
        logits_PV[:, span.vocab_size :] = float("-inf")
        if not bool(torch.isfinite(logits_PV.amax(dim=-1)).all()):
            return PromptScores(span.slot, span.first, [], NOT_FINITE)
        logprobs_PV = torch.log_softmax(logits_PV, dim=-1)
        chosen = logprobs_PV.gather(1, targets_P[:, None])[:, 0].tolist()
        top = torch.topk(logprobs_PV, min(span.num_top, span.vocab_size), dim=-1)
        listed = zip(targets_P.tolist(), chosen, top.indices.tolist(), top.values.tolist(), strict=True)
        entries.extend(TokenLogprobs(*each) for each in listed)
    return PromptScores(span.slot, span.first, entries)
