"""Sampling state by slot, and what of it a step's rows need.

Letters: S slots, R rows to sample, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from infer_api.platforms import Platform
from infer_api.requests import GREEDY_BELOW, SamplingParams
from infer_api.steps import AdmittedRow

__all__ = ["RowSampling", "SamplingTable"]


@dataclass
class RowSampling:
    """Host facts of one slot, so that a step looks only at features that its rows use."""

    params: SamplingParams
    vocab_size: int
    bias_ids: Tensor | None = None
    bias: Tensor | None = None
    stop_ids: Tensor | None = None
    counts_V: Tensor | None = None
    """Generated tokens by id, float32; only for rows with penalties."""
    in_prompt_V: Tensor | None = None

    @property
    def is_greedy(self) -> bool:
        return self.params.temperature <= GREEDY_BELOW

    @property
    def has_penalties(self) -> bool:
        p = self.params
        return p.presence_penalty != 0.0 or p.frequency_penalty != 0.0 or p.repetition_penalty != 1.0


@dataclass
class SamplingTable:
    """Device columns (temperature, top-k, top-p, min-p, seed) and host facts by slot."""

    platform: Platform
    num_slots: int
    width: int
    """Width of the model's output layer; may exceed the tokenizer's vocabulary."""
    rows: dict[int, RowSampling] = field(default_factory=dict)

    def __post_init__(self) -> None:
        static = self.platform.static
        self.temperature_S = static((self.num_slots,), torch.float32)
        self.top_k_S = static((self.num_slots,), torch.int64)
        self.top_p_S = static((self.num_slots,), torch.float32)
        self.min_p_S = static((self.num_slots,), torch.float32)
        self.seed_S = static((self.num_slots,), torch.int64)
        self.num_prompt_S = static((self.num_slots,), torch.int64)

    def admit(self, row: AdmittedRow) -> None:
        """Fill the slot from the request's parameters and the tokens it has so far."""
        params, slot = row.sampling, row.slot
        device = self.temperature_S.device
        self.temperature_S[slot] = max(params.temperature, GREEDY_BELOW)
        self.top_k_S[slot] = params.top_k if 0 < params.top_k < self.width else self.width
        self.top_p_S[slot] = params.top_p
        self.min_p_S[slot] = params.min_p
        self.seed_S[slot] = params.seed or 0
        self.num_prompt_S[slot] = row.num_prompt
        state = RowSampling(params, row.vocab_size or self.width)
        if params.logit_bias:
            state.bias_ids = torch.tensor(list(params.logit_bias), dtype=torch.int64, device=device)
            state.bias = torch.tensor(list(params.logit_bias.values()), dtype=torch.float32, device=device)
        stop_ids = sorted({each for each in row.stop_ids if each < self.width})  # others have no score to forbid
        if params.min_tokens > 0 and stop_ids:
            state.stop_ids = torch.tensor(stop_ids, dtype=torch.int64, device=device)
        if state.has_penalties:
            self._count(state, row, device)
        self.rows[slot] = state

    def _count(self, state: RowSampling, row: AdmittedRow, device: torch.device) -> None:
        tokens = torch.tensor(row.token_ids, dtype=torch.int64, device=device)
        prompt, generated = tokens[: row.num_prompt], tokens[row.num_prompt :]
        state.in_prompt_V = torch.zeros(self.width, dtype=torch.bool, device=device)
        state.in_prompt_V[prompt] = True
        state.counts_V = torch.bincount(generated, minlength=self.width).to(torch.float32)

    def record(self, slots: tuple[int, ...], token_ids_R: Tensor) -> None:
        """Count the drawn tokens of rows with penalties."""
        for index, slot in enumerate(slots):
            counts_V = self.rows[slot].counts_V
            if counts_V is not None:
                counts_V[token_ids_R[index]] += 1
