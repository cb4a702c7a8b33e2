"""Logits to tokens, for all rows of a step at once.

Order: vocabulary bound → raw logprobs → what requests ask of scores (`constraints`) → greedy, or temperature → top-k →
top-p → min-p → draw. Rows are independent: each is drawn by inverting its own cumulative distribution, in order of
token id, at a point that depends on (seed, position) only.
Letters: R rows, V vocabulary, C columns reported, A rows that ask for logprobs, L rows with a filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from infer.runner.constraints import adjust, judge
from infer.runner.random import uniform
from infer.runner.sampling import RowSampling, SamplingTable
from infer_api.requests import RowError, TokenLogprobs

__all__ = ["Drawn", "draw"]

_FEW = 1024
"""Candidates that top-k and top-p look at before they sort a whole row."""


@dataclass(frozen=True)
class Drawn:
    """Tokens [R] and verdicts [R] (not 0: see `constraints.why_failed`); by row: logprobs, and errors of their own."""

    token_ids_R: Tensor
    verdict_R: Tensor
    logprobs: dict[int, TokenLogprobs]
    errors: dict[int, RowError]


def draw(logits_RV: Tensor, slots: Sequence[int], slots_R: Tensor, positions_R: Tensor, table: SamplingTable) -> Drawn:
    """Draw one token per row. `positions_R` are the positions the tokens will have. May overwrite `logits_RV`."""
    rows = [table.rows[slot] for slot in slots]
    logits_RV = logits_RV.float()
    _bound_vocabulary(logits_RV, rows)
    best_R, token_ids_R = logits_RV.max(dim=-1)
    asked = [index for index, row in enumerate(rows) if row.params.logprobs is not None]
    raw = [index for index in asked if rows[index].params.logprobs_mode == "raw"]
    logprobs_AV = torch.log_softmax(logits_RV[raw], dim=-1) if raw else None
    errors: dict[int, RowError] = {}
    verdict_R = judge(best_R, None)
    if not all(row.is_plain for row in rows):
        errors = adjust(logits_RV, rows, positions_R - table.num_prompt_S[slots_R])
        adjusted_R, token_ids_R = logits_RV.max(dim=-1)
        verdict_R = judge(best_R, adjusted_R)
    random = [index for index, row in enumerate(rows) if not row.is_greedy]
    if random:
        at = torch.tensor(random, device=logits_RV.device)
        drawn_R = _draw_random(logits_RV[at], [rows[i] for i in random], slots_R[at], positions_R[at], table)
        token_ids_R = token_ids_R.index_put((at,), drawn_R)
    logprobs = _report(logprobs_AV, raw, rows, token_ids_R) if logprobs_AV is not None else {}
    processed = [index for index in asked if rows[index].params.logprobs_mode == "processed"]
    if processed:
        at = torch.tensor(processed, device=logits_RV.device)
        logprobs_AV = _processed_logprobs(logits_RV[at], [rows[i] for i in processed], slots_R[at], table)
        logprobs |= _report(logprobs_AV, processed, rows, token_ids_R)
    return Drawn(token_ids_R, verdict_R, logprobs, errors)


def _bound_vocabulary(logits_RV: Tensor, rows: Sequence[RowSampling]) -> None:
    """Ids that the tokenizer has no token for are impossible, whatever the output layer's padding says."""
    sizes = {row.vocab_size for row in rows}
    if len(sizes) == 1:
        logits_RV[:, sizes.pop() :] = float("-inf")
        return
    for index, row in enumerate(rows):
        logits_RV[index, row.vocab_size :] = float("-inf")


def _draw_random(
    logits_RV: Tensor, rows: Sequence[RowSampling], slots_R: Tensor, positions_R: Tensor, table: SamplingTable
) -> Tensor:
    probs_RV = torch.softmax(_scaled(logits_RV, table.temperature_S[slots_R]), dim=-1)
    at, dropped_LV = _dropped(probs_RV, rows, slots_R, table)
    if dropped_LV is not None:
        probs_RV[at] = probs_RV[at].masked_fill_(dropped_LV, 0.0)
    cumulative_RV = torch.cumsum(probs_RV, dim=-1, dtype=torch.float64)
    point_R = uniform(table.seed_S[slots_R], positions_R) * cumulative_RV[:, -1]
    drawn_R = torch.searchsorted(cumulative_RV, point_R[:, None], right=True)[:, 0]
    # A row of NaN has no place to fall into; it is reported as failed, and must not index out of bounds here.
    return drawn_R.clamp_(max=probs_RV.shape[-1] - 1)


def _processed_logprobs(
    logits_AV: Tensor, rows: Sequence[RowSampling], slots_A: Tensor, table: SamplingTable
) -> Tensor:
    """Logs of the probabilities that are drawn from. A greedy row has no temperature, but its filters count."""
    is_greedy_A = torch.tensor([row.is_greedy for row in rows], device=logits_AV.device)
    scaled_AV = _scaled(logits_AV, torch.where(is_greedy_A, 1.0, table.temperature_S[slots_A]))
    at, dropped_LV = _dropped(torch.softmax(scaled_AV, dim=-1), rows, slots_A, table)
    if dropped_LV is not None:
        scaled_AV[at] = scaled_AV[at].masked_fill_(dropped_LV, float("-inf"))
    return torch.log_softmax(scaled_AV, dim=-1)


def _scaled(logits_RV: Tensor, temperature_R: Tensor) -> Tensor:
    # The maximum goes first: logits / 1e-4 would overflow in half precision and lose digits in single.
    return (logits_RV - logits_RV.amax(dim=-1, keepdim=True)) / temperature_R[:, None]


def _dropped(
    probs_RV: Tensor, rows: Sequence[RowSampling], slots_R: Tensor, table: SamplingTable
) -> tuple[Tensor, Tensor | None]:
    """The rows that filter, and what each of them drops [L, V]; None when no row does."""
    limited = [
        index
        for index, row in enumerate(rows)
        if row.params.top_p < 1.0 or row.params.min_p > 0.0 or 0 < row.params.top_k < table.width
    ]
    at = torch.tensor(limited, dtype=torch.int64, device=probs_RV.device)
    if not limited:
        return at, None
    slots_L, probs_LV = slots_R[at], probs_RV[at]
    least_L = _least_kept(probs_LV, table.top_k_S[slots_L], table.top_p_S[slots_L], table.min_p_S[slots_L])
    return at, probs_LV < least_L[:, None]


def _least_kept(probs_RV: Tensor, top_k_R: Tensor, top_p_R: Tensor, min_p_R: Tensor) -> Tensor:
    """Smallest probability [R] that survives top-k, then top-p of what is left, then min-p. Ties survive together.

    top-p keeps the smallest set of most likely tokens whose mass reaches p (arXiv:1904.09751); min-p keeps
    what has at least that share of the best token's probability (arXiv:2407.01082).
    """
    width = probs_RV.shape[-1]
    few = min(_FEW, width)
    sorted_RC = torch.topk(probs_RV, few, dim=-1).values
    least_R = _least_of(sorted_RC, top_k_R, top_p_R, min_p_R, width)
    if few < width:
        # Only rows that need it are sorted as a whole, so none goes another way because of a neighbour.
        open_O = (~_settled(sorted_RC, top_k_R, top_p_R, width)).nonzero()[:, 0]
        if len(open_O):
            sorted_OV = torch.sort(probs_RV[open_O], dim=-1, descending=True).values
            least_R[open_O] = _least_of(sorted_OV, top_k_R[open_O], top_p_R[open_O], min_p_R[open_O], width)
    return least_R


def _least_of(sorted_RC: Tensor, top_k_R: Tensor, top_p_R: Tensor, min_p_R: Tensor, width: int) -> Tensor:
    """The same from the most likely candidates, in descending order."""
    rank_C = torch.arange(sorted_RC.shape[-1], device=sorted_RC.device)
    kept_RC = torch.where(rank_C < top_k_R[:, None], sorted_RC, 0.0)
    # In double precision, where it does not matter in which order a device adds.
    until_RC = torch.cumsum(kept_RC, dim=-1, dtype=torch.float64)
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
    top = torch.topk(logprobs_AV, min(num_top, logprobs_AV.shape[-1]), dim=-1)
    chosen_A = token_ids_R[torch.tensor(asked, device=token_ids_R.device)]
    chosen = logprobs_AV.gather(1, chosen_A[:, None])[:, 0].tolist()
    top_ids, top_values, ids = top.indices.tolist(), top.values.tolist(), chosen_A.tolist()
    report = {}
    for place, index in enumerate(asked):
        values = [value for value in top_values[place][: rows[index].params.logprobs] if value > float("-inf")]
        report[index] = TokenLogprobs(ids[place], chosen[place], top_ids[place][: len(values)], values)
    return report
