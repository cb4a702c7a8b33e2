"""Logits to tokens, for all rows of a step at once.

Order: vocabulary bound → logprobs (of what the model said) → logit bias → penalties → min_tokens →
greedy, or temperature → top-k → top-p → min-p → draw. Rows are independent: each is drawn by inverting
its own cumulative distribution, in order of token id, at a point that depends on (seed, position) only.
Letters: R rows, V vocabulary, C columns reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from infer.runner.random import uniform
from infer.runner.sampling import RowSampling, SamplingTable
from infer_api.requests import TokenLogprobs

__all__ = ["Drawn", "draw"]

_FEW = 1024
"""Candidates that top-k and top-p look at before they sort a whole row."""


@dataclass(frozen=True)
class Drawn:
    """Tokens [R], whether a row's scores were unusable [R], and logprobs for the rows that asked."""

    token_ids_R: Tensor
    failed_R: Tensor
    logprobs: dict[int, TokenLogprobs]


def draw(logits_RV: Tensor, slots: Sequence[int], slots_R: Tensor, positions_R: Tensor, table: SamplingTable) -> Drawn:
    """Draw one token per row. `positions_R` are the positions the tokens will have. May overwrite `logits_RV`."""
    rows = [table.rows[slot] for slot in slots]
    logits_RV = logits_RV.float()
    _bound_vocabulary(logits_RV, rows)
    best_R, greedy_R = logits_RV.max(dim=-1)
    failed_R = ~torch.isfinite(best_R)
    asked = [index for index, row in enumerate(rows) if row.params.logprobs is not None]
    logprobs_AV = torch.log_softmax(logits_RV[asked], dim=-1) if asked else None
    if _adjust(logits_RV, rows, slots_R, positions_R, table):
        best_R, greedy_R = logits_RV.max(dim=-1)
        failed_R = failed_R | ~torch.isfinite(best_R)
    random = [index for index, row in enumerate(rows) if not row.is_greedy]
    token_ids_R = greedy_R
    if random:
        at = torch.tensor(random, device=logits_RV.device)
        drawn_R = _draw_random(logits_RV[at], [rows[i] for i in random], slots_R[at], positions_R[at], table)
        token_ids_R = greedy_R.index_put((at,), drawn_R)
    logprobs = _report(logprobs_AV, asked, rows, token_ids_R) if logprobs_AV is not None else {}
    return Drawn(token_ids_R, failed_R, logprobs)


def _bound_vocabulary(logits_RV: Tensor, rows: Sequence[RowSampling]) -> None:
    """Ids that the tokenizer has no token for are impossible, whatever the output layer's padding says."""
    sizes = {row.vocab_size for row in rows}
    if len(sizes) == 1:
        logits_RV[:, sizes.pop() :] = float("-inf")
        return
    for index, row in enumerate(rows):
        logits_RV[index, row.vocab_size :] = float("-inf")


def _adjust(
    logits_RV: Tensor, rows: Sequence[RowSampling], slots_R: Tensor, positions_R: Tensor, table: SamplingTable
) -> bool:
    """Logit bias, penalties and min_tokens, for the rows that use them. Whether anything changed."""
    changed = False
    generated_R = positions_R - table.num_prompt_S[slots_R]
    for index, row in enumerate(rows):
        scores_V = logits_RV[index]
        if row.bias_ids is not None and row.bias is not None:
            scores_V.index_add_(0, row.bias_ids, row.bias)
            changed = True
        if row.counts_V is not None:
            _penalise(scores_V, row)
            changed = True
        if row.stop_ids is not None:
            too_early = generated_R[index] < row.params.min_tokens
            scores_V[row.stop_ids] = torch.where(too_early, float("-inf"), scores_V[row.stop_ids])
            changed = True
    return changed


def _penalise(scores_V: Tensor, row: RowSampling) -> None:
    """Repetition (CTRL, arXiv:1909.05858) over prompt and output; presence and frequency over the output."""
    params, counts_V = row.params, row.counts_V
    assert counts_V is not None
    assert row.in_prompt_V is not None
    if params.repetition_penalty != 1.0:
        seen_V = row.in_prompt_V | (counts_V > 0)
        factor = torch.where(scores_V > 0, 1.0 / params.repetition_penalty, params.repetition_penalty)
        scores_V.copy_(torch.where(seen_V, scores_V * factor, scores_V))
    scores_V.sub_(counts_V * params.frequency_penalty + (counts_V > 0) * params.presence_penalty)


def _draw_random(
    logits_RV: Tensor, rows: Sequence[RowSampling], slots_R: Tensor, positions_R: Tensor, table: SamplingTable
) -> Tensor:
    temperature_R1 = table.temperature_S[slots_R, None]
    # The maximum goes first: logits / 1e-4 would overflow in half precision and lose digits in single.
    probs_RV = torch.softmax((logits_RV - logits_RV.amax(dim=-1, keepdim=True)) / temperature_R1, dim=-1)
    top_k_R, top_p_R, min_p_R = table.top_k_S[slots_R], table.top_p_S[slots_R], table.min_p_S[slots_R]
    limited = [
        index
        for index, row in enumerate(rows)
        if row.params.top_p < 1.0 or row.params.min_p > 0.0 or 0 < row.params.top_k < table.width
    ]
    if limited:
        at = torch.tensor(limited, device=probs_RV.device)
        least_R = _least_kept(probs_RV[at], top_k_R[at], top_p_R[at], min_p_R[at])
        probs_RV[at] = torch.where(probs_RV[at] >= least_R[:, None], probs_RV[at], 0.0)
    cumulative_RV = torch.cumsum(probs_RV, dim=-1, dtype=torch.float64)
    point_R = uniform(table.seed_S[slots_R], positions_R) * cumulative_RV[:, -1]
    drawn_R = torch.searchsorted(cumulative_RV, point_R[:, None], right=True)[:, 0]
    # A row of NaN has no place to fall into; it is reported as failed, and must not index out of bounds here.
    return drawn_R.clamp_(max=probs_RV.shape[-1] - 1)


def _least_kept(probs_RV: Tensor, top_k_R: Tensor, top_p_R: Tensor, min_p_R: Tensor) -> Tensor:
    """Smallest probability [R] that survives top-k, then top-p of what is left, then min-p. Ties survive together.

    top-p keeps the smallest set of most likely tokens whose mass reaches p (arXiv:1904.09751); min-p keeps
    what has at least that share of the best token's probability (arXiv:2407.01082).
    """
    width = probs_RV.shape[-1]
    few = min(_FEW, width)
    sorted_RC = torch.topk(probs_RV, few, dim=-1).values
    if few < width and not bool(_settled(sorted_RC, top_k_R, top_p_R, width).all()):
        sorted_RC = torch.sort(probs_RV, dim=-1, descending=True).values
    rank_C = torch.arange(sorted_RC.shape[-1], device=probs_RV.device)
    kept_RC = torch.where(rank_C < top_k_R[:, None], sorted_RC, 0.0)
    # `sum` could round differently over few and over all candidates, and a neighbour decides which it is.
    until_RC = torch.cumsum(kept_RC, dim=-1)
    total_R1 = torch.where(top_k_R < width, until_RC[:, -1], 1.0)[:, None]
    kept_RC = torch.where(until_RC - kept_RC < top_p_R[:, None] * total_R1, kept_RC, 0.0)
    kept_RC = torch.where(kept_RC >= min_p_R[:, None] * sorted_RC[:, :1], kept_RC, 0.0)
    kept_RC[:, 0] = sorted_RC[:, 0]  # top_p = 0 keeps the best token
    least_R = torch.where(kept_RC > 0, kept_RC, float("inf")).amin(dim=-1)
    unlimited_R = (top_k_R >= width) & (top_p_R >= 1.0)
    return torch.where(unlimited_R, min_p_R * sorted_RC[:, 0], least_R)


def _settled(sorted_RC: Tensor, top_k_R: Tensor, top_p_R: Tensor, width: int) -> Tensor:
    """Whether the candidates at hand decide a row [R]: they hold its top k, or without one the mass p."""
    # The margin keeps the choice away from rounding of the sum.
    reaches_p_R = (top_p_R >= 1.0) | (sorted_RC.sum(dim=-1) >= top_p_R + 1e-3)
    return (top_k_R <= sorted_RC.shape[-1]) | ((top_k_R >= width) & reaches_p_R)


def _report(
    logprobs_AV: Tensor, asked: Sequence[int], rows: Sequence[RowSampling], token_ids_R: Tensor
) -> dict[int, TokenLogprobs]:
    num_top = max(row.params.logprobs or 0 for row in (rows[index] for index in asked))
    top = torch.topk(logprobs_AV, max(1, num_top), dim=-1)
    chosen_A = token_ids_R[torch.tensor(asked, device=token_ids_R.device)]
    chosen = logprobs_AV.gather(1, chosen_A[:, None])[:, 0].tolist()
    top_ids, top_values, ids = top.indices.tolist(), top.values.tolist(), chosen_A.tolist()
    report = {}
    for place, index in enumerate(asked):
        count = rows[index].params.logprobs or 0
        report[index] = TokenLogprobs(ids[place], chosen[place], top_ids[place][:count], top_values[place][:count])
    return report
