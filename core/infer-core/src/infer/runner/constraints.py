"""What requests ask of scores before a token is drawn, row by row, and what a row is told that cannot be drawn.

Order: logit bias → penalties → bad words → allowed tokens → logits processors → min_tokens. What is impossible before
the processors is so after them. Letters: R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from infer.runner.processors import processor_failure
from infer.runner.sampling import RowSampling
from infer_api.requests import RowError

__all__ = ["NOT_FINITE", "adjust", "judge", "why_failed"]

NOT_FINITE = RowError("the model produced scores that are not finite (NaN or infinite)")
_MODEL, _NOTHING_LEFT, _ADJUSTED = 1, 2, 3
"""Verdicts about a row: the model's scores are unusable; no token is possible; adjusting them broke them."""


def adjust(logits_RV: Tensor, rows: Sequence[RowSampling], generated_R: Tensor) -> dict[int, RowError]:
    """Change the scores of rows that ask for it, in place; of each that failed by itself, the error.

    `generated_R` counts the tokens that each row has generated so far.
    """
    errors = {}
    for index, row in enumerate(rows):
        if row.is_plain:
            continue
        error = row.failure or _adjust_row(logits_RV[index], row, generated_R[index])
        if error is not None:
            errors[index] = error
    return errors


def _adjust_row(scores_V: Tensor, row: RowSampling, generated: Tensor) -> RowError | None:
    if row.bias_ids is not None and row.bias is not None:
        scores_V.index_add_(0, row.bias_ids, row.bias)
    if row.counts_V is not None:
        _penalise(scores_V, row)
    if row.bad_words is not None:
        row.bad_words.forbid(scores_V)
    if row.allowed_ids is not None:
        allowed = scores_V[row.allowed_ids]
        scores_V.fill_(float("-inf"))
        scores_V[row.allowed_ids] = allowed
    error = _process(scores_V, row) if row.processors else None
    if row.stop_ids is not None:
        too_early = generated < row.params.min_tokens
        scores_V[row.stop_ids] = torch.where(too_early, float("-inf"), scores_V[row.stop_ids])
    return error


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


def _process(scores_V: Tensor, row: RowSampling) -> RowError | None:
    assert row.history is not None
    impossible_V = scores_V == float("-inf")
    own_V = scores_V.clone()  # a processor that resizes its tensor must not reach into the rows of others
    for name, processor in row.processors:
        try:
            processor(own_V, row.history)
            if own_V.shape != scores_V.shape or own_V.dtype != scores_V.dtype:
                raise TypeError(f"it made {tuple(own_V.shape)} scores of {tuple(scores_V.shape)}")
        except BaseException as error:  # noqa: BLE001 - foreign code, which may also try to exit; the plugin is named
            return processor_failure(name, error)
    scores_V.copy_(own_V.masked_fill_(impossible_V, float("-inf")))
    return None


def judge(model_best_R: Tensor, best_R: Tensor | None) -> Tensor:
    """Verdicts [R], 0 for rows that can be drawn, from the best scores before and after `adjust` (None: not called)."""
    verdict_R = (~torch.isfinite(model_best_R)).to(torch.int8)  # that is _MODEL
    if best_R is None:
        return verdict_R
    adjusted_R = torch.where(best_R == float("-inf"), _NOTHING_LEFT, torch.where(torch.isfinite(best_R), 0, _ADJUSTED))
    return torch.where(verdict_R == _MODEL, verdict_R, adjusted_R.to(torch.int8))


def why_failed(verdict: int, row: RowSampling) -> RowError:
    """The error of a row whose verdict is not 0."""
    if verdict == _MODEL:
        return NOT_FINITE
    names = ", ".join(repr(name) for name, _ in row.processors)
    if verdict == _NOTHING_LEFT:
        constraints = ", ".join(_constraints(row, names))
        message = f"no token is left to choose from, since {constraints} forbid every one; allow more tokens"
        return RowError(message, "no_allowed_token", 400)
    message = f"scores are not finite (NaN or infinite) after the logits processors {names}"
    return RowError(message, "processor_failed") if names else NOT_FINITE


def _constraints(row: RowSampling, processors: str) -> list[str]:
    """How the request spells what can make a token impossible."""
    used = {
        "logit_bias": float("-inf") in row.params.logit_bias.values(),
        "bad_words": row.bad_words is not None,
        "allowed_token_ids": row.allowed_ids is not None,
        f"logits_processors ({processors})": bool(processors),
        "min_tokens": row.stop_ids is not None,
    }
    return [name for name, is_used in used.items() if is_used]
